package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/auth"
	"holdfast/session"
	"holdfast/tree"
)

// Supers returns conn, the tree's part of a connection, or conn with an audit of its writes if [tree.Super] is among
// those whom the node vouches for: no access list holds back what such a client writes. ctx is that of the call. A nil
// Audit audits nothing.
func (a *Audit) Supers(
	ctx context.Context, vouched []tree.Principal, conn session.TreeConnection,
) session.TreeConnection {
	if a == nil || !isSuper(vouched) {
		return conn
	}
	return a.LaterSupers(auth.From(ctx).Name, shownIn(ctx).from, vouched, conn)
}

// LaterSupers is Supers for a connection whose client may become super at any time, as ZooKeeper's do. Writes are
// audited from then on. name is the client's verified name, empty for none.
func (a *Audit) LaterSupers(
	name string, from net.Addr, vouched []tree.Principal, conn session.TreeConnection,
) session.TreeConnection {
	if a == nil {
		return conn
	}
	return &supers{
		TreeConnection: conn, audit: a, name: name, from: address(from), who: superName(name, vouched),
		under: make(map[uint64]*record),
	}
}

func isSuper(vouched []tree.Principal) bool {
	return slices.ContainsFunc(vouched, func(p tree.Principal) bool { return p.Scheme == tree.Super })
}

// superName names a client for the audit, by the digest that makes it super and its verified name; empty for a client
// that is not super.
func superName(name string, vouched []tree.Principal) string {
	i := slices.IndexFunc(vouched, func(p tree.Principal) bool { return p.Scheme == tree.Super })
	if i < 0 {
		return ""
	}
	digest := ""
	if i > 0 { // the digest comes right before
		digest, _, _ = strings.Cut(vouched[i-1].ID, ":")
	}
	if name != "" {
		return name + " as super:" + digest
	}
	return "super:" + digest
}

// supers is the tree's part of the connection of a client that is super, or may become it. Each write as super is a
// record until its answer comes out.
type supers struct {
	session.TreeConnection
	audit      *Audit
	name, from string

	mu sync.Mutex
	// who is the client while it is super, else empty. guarded by mu
	who string
	// under has the writes under way by their keys, which the node bounds. guarded by mu
	under map[uint64]*record
}

// SetPrincipals replaces those whom the node vouches for.
func (s *supers) SetPrincipals(all []tree.Principal) {
	s.mu.Lock()
	s.who = superName(s.name, all)
	s.mu.Unlock()
	s.TreeConnection.SetPrincipals(all)
}

// Write takes a write, which is audited unless it is void: that one changes nothing.
func (s *supers) Write(w session.TreeWrite) error {
	s.mu.Lock()
	who := s.who
	s.mu.Unlock()
	if who == "" || w.Write.Void {
		return s.TreeConnection.Write(w)
	}
	r := s.audit.begin(auth.SuperWrites, caller{who, true}, s.from)
	r.what = describeWrite(&w.Write)
	s.mu.Lock()
	s.under[w.Key] = r
	s.mu.Unlock()
	err := s.TreeConnection.Write(w)
	if err != nil {
		s.end(w.Key, err)
	}
	return err
}

// Next takes out the next thing to tell the client. The answer to a write ends its record.
func (s *supers) Next(now time.Time) (session.TreeTold, bool) {
	told, ok := s.TreeConnection.Next(now)
	if a := told.Answer; ok && a != nil {
		s.end(a.Key, outcomeOf(a))
	}
	return told, ok
}

// Close ends the tree's part of the connection. Nobody will see the answers to writes under way.
func (s *supers) Close() {
	s.TreeConnection.Close()
	s.mu.Lock()
	left := s.under
	s.under = make(map[uint64]*record)
	s.mu.Unlock()
	for _, r := range left {
		r.end(session.ErrOutcomeUnknown)
	}
}

func (s *supers) end(key uint64, err error) {
	s.mu.Lock()
	r := s.under[key]
	delete(s.under, key)
	s.mu.Unlock()
	r.end(err)
}

// errVoid is the outcome of a write in whose place the log has a void.
var errVoid = errors.New("the write was given up: a void took its number")

// outcomeOf returns why a write had no effect, and nil when it took effect.
func outcomeOf(a *session.TreeAnswer) error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Wrote == nil:
		return nil
	case a.Wrote.Void:
		return errVoid
	case a.Wrote.Outcome.Refused != nil:
		return a.Wrote.Outcome.Refused
	default:
		return nil
	}
}

// describeWrite says what a write changes, without any data.
func describeWrite(w *tree.NumberedWrite) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session=%#016x", w.Session)
	if n := len(w.Transaction.If); n > 0 {
		fmt.Fprintf(&b, " conditions=%d", n)
	}
	describeOps(&b, "then", w.Transaction.Then)
	describeOps(&b, "else", w.Transaction.Else)
	if w.Will != nil {
		describeOps(&b, "will", w.Will.Transaction.Then)
	}
	return cut(auth.WithoutTokens(b.String()), mostWhat)
}

func describeOps(b *strings.Builder, branch string, ops []tree.Op) {
	if len(ops) == 0 {
		return
	}
	fmt.Fprintf(b, " %s=[", branch)
	for i, op := range ops[:min(len(ops), mostItems)] {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(b, "%s %q", op.Verb(), cut(op.Target(), mostText))
	}
	if len(ops) > mostItems {
		fmt.Fprintf(b, " and %d more", len(ops)-mostItems)
	}
	b.WriteString("]")
}
