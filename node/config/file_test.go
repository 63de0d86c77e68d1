package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestLoadRefusesFiles(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"not YAML", "a: [", "config node.yaml (environment HOLDFAST_CONFIG): is not YAML: "},
		{
			"a tab", "node: 1\npeers:\n \t1: n1\n",
			"config node.yaml (environment HOLDFAST_CONFIG): is not YAML: line 3 is indented with a tab: " +
				"use spaces",
		},
		{"not a mapping", "- 1", "config node.yaml (environment HOLDFAST_CONFIG): must be a YAML mapping of settings"},
		{
			"two documents", "node: 1\n---\nnode: 2\n",
			"config node.yaml (environment HOLDFAST_CONFIG): must be a single YAML document",
		},
		{"a list for one value", "node: [1]", "node (file node.yaml, line 1): must be a single value"},
		{
			"a peer with another key", "peers:\n- {node: 1, raft: 'a:1', http: 'a:2'}",
			`peers (file node.yaml, line 2): "http" is not a key of a peer: node, raft, peer, client`,
		},
		{
			"a peer without raft", "peers:\n- {node: 1}",
			"peers (file node.yaml, line 2): raft address of node 1 must be HOST:PORT",
		},
		{
			"a peer without node", "peers:\n- {raft: 'a:1'}",
			"peers (file node.yaml, line 2): node of a peer must be a whole number, 1 to 254",
		},
		{
			"a peer with a key twice", "peers:\n- {node: 1, node: 2, raft: 'a:1'}",
			`peers (file node.yaml, line 2): "node" is set twice`,
		},
		{
			"a peer that is text", "peers:\n- 1=n1",
			"peers (file node.yaml, line 2): each peer must be a mapping of node, raft, peer and client",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.file, nil)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	// All problems of all peers are named at once.
	_, err := load(t, "peers:\n- {http: 'a:2', raft: 'a:x'}\n- {node: 2, raft: 'b:99999'}\n", nil)
	for _, want := range []string{`"http" is not a key`, "node of a peer must be", "b:99999"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s in it", err, want)
		}
	}
	// What the file would have said is unknown: that node is not set, for one, is not complained about.
	want := "config /nowhere/node.yaml (flag --config): cannot be read: open /nowhere/node.yaml: no such file or " +
		"directory"
	if _, err = load(t, "", nil, "--config=/nowhere/node.yaml"); err == nil || err.Error() != want {
		t.Errorf("missing file: got  %v\nwant %s", err, want)
	}
}

func TestLoadPeersFromYAML(t *testing.T) {
	file := "node: 1\ndata_dir: d\npeers:\n- {node: 1, raft: 'a:1', peer: 'a:2', client: 'b:3'}\n- node: 2\n  raft: " +
		"'[::1]:4'\n"
	got, err := load(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Peer{{1, "a:1", "a:2", "b:3"}, {2, "[::1]:4", "[::1]:7402", "[::1]:7400"}}
	if !reflect.DeepEqual(got.Peers, want) {
		t.Errorf("got %v, want %v", got.Peers, want)
	}
}
