package local

import (
	"context"
	"testing"
	"time"

	"holdfast/session"
)

const (
	interval = 500 * time.Millisecond
	timeout  = 10 * time.Second
	// width is the width of a bucket of the queue, and look how often a node looks at the queue.
	width = 250 * time.Millisecond
	look  = interval / 4
	// firstLocal is the first id that node 1 claims in these tests.
	firstLocal session.ID = 1<<56 | 5<<16
)

// awake says that the machine was never suspended.
func awake(time.Duration) bool { return false }

// tableWith returns a table of node 1 with ids from first on.
func tableWith(first session.ID, count uint32) *Table {
	t := NewTable(TableConfig{
		Node: 1, Interval: width, SuspendedSince: awake,
		Capacity: session.Capacity{MaxSessions: 1 << 30, MaxBytes: 1 << 40},
	})
	t.AddIDs(first, count)
	return t
}

// conn is a connection that records ends.
type conn struct {
	gone  []session.Certificate
	moved []session.Session
}

func (c *conn) Gone(e session.Certificate)            { c.gone = append(c.gone, e) }
func (c *conn) Moved(s session.Session)               { c.moved = append(c.moved, s) }
func (*conn) MovedLocally(session.ID, uint64, uint64) {}
func (*conn) Promote(session.Session) bool            { return true }

// node is the rest of a node that has applied nothing, and knows no session.
type node struct{ Node }

func (node) Authentic(session.Token) error                              { return nil }
func (node) AppliedIndex() uint64                                       { return 0 }
func (node) Changed(session.Change)                                     {}
func (node) LogEnd(Conn, *session.Certificate)                          {}
func (node) Certificate(session.ID) (c session.Certificate, known bool) { return c, false }
func (node) Gone(id session.ID) error                                   { return &session.ExpiredError{ID: id} }

func (node) WaitApplied(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }

// clock stands still.
type clock struct{}

func (clock) Now() time.Duration      { return 0 }
func (clock) Stalls() *session.Stalls { return nil }
func (clock) Wall() time.Time         { return time.Time{} }

// upgrading returns a service with one session whose upgrade has begun.
func upgrading(t *testing.T) (*Service, *conn, *upgrade) {
	t.Helper()
	table, c := tableWith(firstLocal, 1), &conn{}
	s, err := table.Open(session.OpenRequest{Spec: session.Spec{Timeout: timeout}}, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := table.beginUpgrade(tokenOf(s), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return NewService(Config{Node: 1, Allowed: true, Upgrade: true, Interval: interval, Wait: timeout}, table, node{},
		clock{}), c, u
}

func tokenOf(s *Session) session.Token {
	return session.Token{ID: s.facts.ID, Attachment: s.facts.Attachment, Local: true}
}
