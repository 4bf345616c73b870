"""A Ray cluster of three nodes on this machine, in a process of its own: `python -m tests.cluster.nodes`.

Ray starts nodes by forking, which a process with JAX's threads must not do. The process prints the cluster's address
and the process of each node that may die; a line with one of them kills that node and starts another. It ends with its
standard input.
"""
# pyright: reportMissingImports=false

import json
import sys

MEMORY = 100 * 2**20  # bytes of a node's object store: trainings put nothing there


def main():
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        cluster.wait_for_nodes()
        while True:
            mortal = {node.all_processes["raylet"][0].process.pid: node for node in cluster.worker_nodes}
            sys.stdout.write(json.dumps({"address": cluster.address, "mortal": list(mortal)}) + "\n")
            sys.stdout.flush()
            if not (line := sys.stdin.readline()):
                break
            cluster.remove_node(mortal[int(line)], allow_graceful=False)
            cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
