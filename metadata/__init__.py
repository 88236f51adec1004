"""The cluster's metadata: what it is, who decides it, and how brokers follow it. `docs/metadata.md` tells the story.

What it is (pure):
    records, partition, broker, image, partition_change, settings; record_codec, image_snapshot to and from bytes
The controller's decisions (pure), one a module:
    registration, broker_states, failures, alter_partition; create_topic, delete_topic, add_partitions; alter_configs,
    describe_configs; reassignment, elect_leaders, leader_balance; producer_ids, unregister_broker; with their parts:
    placement, spread, leader_spread, topic_names, topic_config, cluster_config, and checks
The controller's runtime:
    controller_node puts it together: quorum, machine, active_controller (with speculation), sessions,
    controller_timers, publishing, first_records
Its services:
    controller_service and heartbeat_service for brokers; admin_service, quorum_service, cluster_service for clients
The brokers' side:
    membership puts it together: broker_session, heartbeats, follower, controller_client, forwarding
"""
