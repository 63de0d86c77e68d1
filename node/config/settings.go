package config

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"holdfast/session"
)

const (
	clusterIDLimit   = "1 to 64 of a-z A-Z 0-9 . _ -"
	clusterIDLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	listenLimit      = "HOST:PORT or :PORT, port 1 to 65535"
	joinSetting      = "join"
	peersLimit       = "1 to 254 nodes, such as 1=n1,2=n2,3=n3: see docs/configuration.md#peers"
)

// settings returns the table, in the order of the documentation. Each larger group has a file of its own.
func settings() []setting {
	return slices.Concat(identitySettings(), listenSettings(), zookeeperSettings(), sessionSettings(), localSettings(),
		readSettings(), treeSettings(), raftSettings(), clientSettings(), rateLimitSettings(), resourceSettings(), tlsSettings(),
		authSettings(), tracingSettings(), otherSettings())
}

func identitySettings() []setting {
	return []setting{
		{
			name: "node", kind: "number", limit: "1 to 254", help: "number of this node in peers; required",
			ok:    func(c *Config) bool { return c.Node.Valid() },
			value: func(c *Config) pflag.Value { return nodeValue(&c.Node) },
		},
		word("cluster_id", "holdfast", clusterIDLimit, validClusterID,
			func(c *Config) *string { return &c.ClusterID }).
			helps("name of the cluster; nodes of other clusters are refused"),
		word("data_dir", "", "a path", func(s string) bool { return s != "" },
			func(c *Config) *string { return &c.DataDir }).
			helps("directory of this node alone, created if missing; required"),
		{
			name: "peers", kind: "peers", limit: peersLimit,
			help:  "nodes with their addresses, this one included: the members of a new cluster; required",
			ok:    func(c *Config) bool { return len(c.Peers) > 0 && len(c.Peers) <= int(session.MaxNode) },
			value: func(c *Config) pflag.Value { return peersValue(&c.Peers) },
		},
		toggle(joinSetting, off, func(c *Config) *bool { return &c.Raft.Join }).
			helps("on: wait for holdfast cluster add instead of founding a new cluster; ignored once the node is a member; " +
				"--join alone means on"),
	}
}

func validClusterID(s string) bool {
	return len(s) <= 64 && s != "" && strings.Trim(s, clusterIDLetters) == ""
}

func listenSettings() []setting {
	listen := func(name, def string, at func(c *Config) *string) setting {
		s := word(name, def, listenLimit, validListen, at)
		s.kind = "address"
		return s
	}
	return []setting{
		listen("client_listen", ":7400", func(c *Config) *string { return &c.Listen.Client }).
			helps("client port (gRPC)"),
		listen("raft_listen", ":7401", func(c *Config) *string { return &c.Listen.Raft }).
			helps("Raft port"),
		listen("peer_listen", ":7402", func(c *Config) *string { return &c.Listen.Peer }).
			helps("port between leader and learners (gRPC)"),
		listen("http_listen", ":7403", func(c *Config) *string { return &c.Listen.HTTP }).
			helps("port for /metrics, /healthz and the console (HTTP)"),
		word("zk_listen", "", listenLimit+", or empty", func(s string) bool { return s == "" || validListen(s) },
			func(c *Config) *string { return &c.Listen.ZooKeeper }).
			helps("port for ZooKeeper clients, such as :7404, with the TLS mode of client_tls").from("empty"),
	}
}

func otherSettings() []setting {
	return []setting{
		duration("drain_timeout", "10s", span[time.Duration]{0, time.Hour},
			func(c *Config) *time.Duration { return &c.Clients.DrainTimeout }).
			helps("time that a drained node waits for its clients to leave before it closes their connections; a stop " +
				"drains first, and takes at most 10 s more"),
		choice("log_level", "info", []string{"trace", "debug", "info", "warn", "error", "off"},
			func(c *Config) *string { return &c.Log.Level }).
			helps("least severe log lines written; off drops audit lines too"),
		choice("log_format", "text", []string{"text", "json"},
			func(c *Config) *string { return &c.Log.Format }).helps("format of log lines"),
	}
}
