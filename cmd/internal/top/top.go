// Package top draws holdfast top: a cluster at a glance, in a terminal. A [Model] is pure: it gets samples and keys,
// and draws text. The command fetches the samples, and passes the model to bubbletea.
package top

import (
	"context"
	"slices"
	"time"

	"holdfast/client"
	"holdfast/session"
)

// Source asks a cluster. Safe for concurrent use.
type Source interface {
	// Fetch collects everything that one frame shows. Failures are errors in the sample.
	Fetch(ctx context.Context, w Query) Sample
	// Explain explains what keeps a session alive, or why it ended.
	Explain(ctx context.Context, id session.ID) ([]string, error)
}

// MinInterval is the shortest interval between samples: each sample reads all sessions of the cluster.
const MinInterval = 100 * time.Millisecond

// Query says what the user wants to see of a cluster that has more sessions than a screen has lines.
type Query struct {
	// Labels filters sessions and ended sessions; an empty value means any.
	Labels map[string]string
	// Timeout is the time limit for answers: a silent node must not delay the picture.
	Timeout time.Duration
}

// Sample is a cluster at a moment.
type Sample struct {
	At    time.Time
	Nodes []Node
	// Expiring are the sessions that expire soonest, at most one page.
	Expiring []session.Listed
	// Clients are the busiest connections of all nodes. ClientsKnown: a node has answered.
	Clients      []Connection
	ClientsKnown bool
	// Deaths are the newest certificates, the newest first.
	Deaths []session.Certificate
	// Missing says why a section could not be had: its list is empty then, and nothing follows from that.
	Missing [sections]string
}

// Failed lists the reasons for missing parts.
func (s *Sample) Failed() []string {
	return slices.DeleteFunc(slices.Clone(s.Missing[:]), func(why string) bool { return why == "" })
}

// Node is the answer of one endpoint.
type Node struct {
	Endpoint string
	Status   client.Status
	// At is when the answer came, RoundTrip its latency.
	At        time.Time
	RoundTrip time.Duration
	// Silent explains why there is no answer; empty when there is one.
	Silent string
}

// Connection is a client's connection to a node.
type Connection struct {
	Node session.Node
	client.ClientConnection
}

// best returns the answer of the node that knows most; nil for none.
func (s *Sample) best() *client.Status {
	var best *client.Status
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Silent == "" && (best == nil || client.Outranks(&n.Status, best)) {
			best = &n.Status
		}
	}
	return best
}
