// Package top is what holdfast top shows: a cluster at a glance, in a terminal. A [Model] is pure: it takes samples and
// keys, and draws text. The command fetches the samples, and gives the model to bubbletea.
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
	// Look asks everything that one frame shows. What could not be had is an error in the sample.
	Look(ctx context.Context, w Wish) Sample
	// Explain says in sentences what keeps a session alive, or why it ended.
	Explain(ctx context.Context, id session.ID) ([]string, error)
}

// LeastEvery is the least time between two samples: each costs the cluster a look at all its sessions.
const LeastEvery = 100 * time.Millisecond

// Wish says what the user wants to see of a cluster that has more sessions than a screen has lines.
type Wish struct {
	// Labels are those that sessions and ended sessions must have; an empty value stands for any.
	Labels map[string]string
	// Patience is how long answers may take: a node that does not answer must not hold up the picture.
	Patience time.Duration
}

// Sample is a cluster at a moment.
type Sample struct {
	At    time.Time
	Nodes []Node
	// Expiring are the sessions that are soonest to expire, at most a page of them.
	Expiring []session.Listed
	// Clients are the busiest connections of all nodes. ClientsTold says that a node told them.
	Clients     []Connection
	ClientsTold bool
	// Deaths are the newest certificates, the newest first.
	Deaths []session.Certificate
	// Untold says why a section could not be had: its list is empty then, and nothing follows from that.
	Untold [sections]string
}

// Failed says what could not be had, one reason a text.
func (s *Sample) Failed() []string {
	return slices.DeleteFunc(slices.Clone(s.Untold[:]), func(why string) bool { return why == "" })
}

// Node is the answer of one endpoint.
type Node struct {
	Endpoint string
	Status   client.Status
	// At is when the answer came, RoundTrip how long it took.
	At        time.Time
	RoundTrip time.Duration
	// Silent says why there is no answer; empty when there is one.
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
