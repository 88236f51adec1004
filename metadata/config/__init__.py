"""Configuration keys of topics, brokers and the cluster, with their defaults and checks."""
