// Package config holds the settings of a node: the table of settings, the sources of their values, and the checks.
package config

import (
	"time"

	"holdfast/session"
	"holdfast/transport/authz"
)

// Config is the configuration of one node. Settings, defaults and ranges are in the table of [Reference]; the structs
// follow the groups of that table. Config is a value: nothing in this package changes a Config that it was given.
type Config struct {
	// Node is this node's number, 1 to 254, and one of Peers.
	Node session.Node
	// ClusterID keeps nodes of different clusters apart.
	ClusterID string
	// DataDir is the directory of this node alone.
	DataDir string
	// Peers are all nodes of the cluster, this node included. Peers are the same on every node.
	Peers []Peer
	// Listen are the addresses of the ports.
	Listen Listen

	Sessions Sessions
	Tree     Tree
	// ReadOnly lets this node serve reads of its applied state while it has no contact to a quorum (N1 node mode).
	// Nodes may differ.
	ReadOnly   bool
	Raft       Raft
	Clients    Clients
	RateLimits RateLimits
	Resources  Resources
	TLS        TLS
	Auth       Auth
	// ZooKeeper is about the clients of Listen.ZooKeeper.
	ZooKeeper ZooKeeper

	Log Log

	// Tuning has no settings.
	Tuning Tuning
}

// Listen are the addresses that a node listens on, each HOST:PORT. An empty host means every interface. ZooKeeper is
// empty on a node that does not serve ZooKeeper's clients.
type Listen struct{ Client, Raft, Peer, HTTP, ZooKeeper string }

// Log says which log lines are written, and in which form.
type Log struct {
	// Level is trace, debug, info, warn, error or off; Format is text or json.
	Level, Format string
	// Tracing says where the spans of traces go.
	Tracing Tracing
}

// Default returns the defaults. Node, DataDir and Peers have none.
func Default() Config {
	c := Config{Tuning: DefaultTuning()}
	for _, s := range settings() {
		if s.def == "" {
			continue
		}
		if err := s.value(&c).Set(s.def); err != nil {
			panic("node/config: default of " + s.name + ": " + err.Error())
		}
	}
	return c
}

// Complete returns c with the missing settings of TLS and authentication filled in. Its error names all
// problems of c at once: it joins one [SettingError] for each problem.
func (c Config) Complete() (Config, error) { return c.complete(provenance{}) }

func (c Config) complete(from provenance) (Config, error) {
	c.TLS = c.TLS.withDefaults()
	if err := check(c, from); err != nil {
		return Config{}, err
	}
	if c.Auth.Mode == "" { // on loopback, as check has found
		c.Auth.Mode = authz.None
	}
	return c, nil
}

// Self returns this node's own entry of Peers, false when there is none. A complete Config has one.
func (c Config) Self() (Peer, bool) {
	for _, p := range c.Peers {
		if p.Node == c.Node {
			return p, true
		}
	}
	return Peer{}, false
}

// forAnElection is the time that nodes get to elect another leader, once they noticed the loss (N1).
const forAnElection = 2 * time.Second

// ReadOnlyAfter returns how long a node must have learnt of no good round before it may be read-only (N1). The time is
// longer than an election usually takes among nodes that reach each other:
//
//   - the newest good round may be one interval old when the leader ends;
//   - the first follower usually notices that after one to two of Raft's heartbeat timeouts, three at most;
//   - the new leader announces its first good round with its second round.
//
// It is no upper bound: votes may split, and each split costs an election timeout.
func (c Config) ReadOnlyAfter() time.Duration {
	return 3*c.Sessions.HeartbeatInterval + 2*c.Raft.HeartbeatTimeout + forAnElection
}

// Warnings returns a sentence for each setting that is allowed but probably a mistake.
func (c Config) Warnings() []string {
	all := append(c.authWarnings(), c.tlsWarnings()...)
	switch n := len(c.Peers); {
	case n == 1:
		all = append(all, "one node survives no failure: give peers three or five nodes")
	case n > 0 && n%2 == 0:
		all = append(all,
			"an even number of peers survives no more failures than one peer less: give peers three or five nodes")
	}
	return all
}
