"""The image of the cluster, and the records that change it."""
