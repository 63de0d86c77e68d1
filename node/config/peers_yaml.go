package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"go.yaml.in/yaml/v3"
)

// peerFromYAML reads {node: 1, raft: HOST:PORT, peer: HOST:PORT, client: HOST:PORT}. The defaults of peer and client
// are Raft's host with their default ports.
func peerFromYAML(item *yaml.Node) (Peer, error) {
	if item.Kind != yaml.MappingNode {
		return Peer{}, errors.New("each peer must be a mapping of node, raft, peer and client")
	}
	fields := map[string]string{}
	var problems []error
	for i := 0; i+1 < len(item.Content); i += 2 {
		key, value := item.Content[i].Value, item.Content[i+1]
		switch _, twice := fields[key]; {
		case !slices.Contains([]string{"node", "raft", "peer", "client"}, key):
			problems = append(problems, fmt.Errorf("%q is not a key of a peer: node, raft, peer, client", key))
		case twice:
			problems = append(problems, fmt.Errorf("%q is set twice", key))
		case value.Kind != yaml.ScalarNode:
			problems = append(problems, fmt.Errorf("%q must be a single value", key))
		}
		fields[key] = value.Value
	}
	node, err := ParseNode(fields["node"])
	if err != nil {
		problems = append(problems, fmt.Errorf("node of a peer %w", err))
	}
	host, _, err := net.SplitHostPort(fields["raft"])
	if err != nil {
		problems = append(problems, fmt.Errorf("raft address of node %s must be HOST:PORT", fields["node"]))
	}
	if len(problems) > 0 {
		return Peer{}, errors.Join(problems...)
	}
	return Peer{
		Node:   node,
		Raft:   fields["raft"],
		Peer:   cmp.Or(fields["peer"], net.JoinHostPort(host, defaultPeerPort)),
		Client: cmp.Or(fields["client"], net.JoinHostPort(host, defaultClientPort)),
	}, nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
