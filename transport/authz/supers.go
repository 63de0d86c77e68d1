package authz

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

// Supers returns conn, the tree's part of a connection. If the client is [tree.Super], which passes every access list,
// the returned connection audits its writes. ctx is the call's. A nil Audit audits nothing.
func (a *Audit) Supers(
	ctx context.Context, principals []tree.Principal, conn session.TreeConnection,
) session.TreeConnection {
	if a == nil || !isSuper(principals) {
		return conn
	}
	return a.LaterSupers(auth.From(ctx).Name, shownIn(ctx).from, principals, conn)
}

// LaterSupers is Supers for a connection whose client may become super at any time, as ZooKeeper's clients do. Writes
// are audited from then on. name is the client's verified name; empty for none.
func (a *Audit) LaterSupers(
	name string, from net.Addr, principals []tree.Principal, conn session.TreeConnection,
) session.TreeConnection {
	if a == nil {
		return conn
	}
	return &supers{
		TreeConnection: conn, audit: a, name: name, from: address(from), who: superName(name, principals),
		under: make(map[uint64]*record),
	}
}

func isSuper(principals []tree.Principal) bool {
	return slices.ContainsFunc(principals, func(p tree.Principal) bool { return p.Scheme == tree.Super })
}

// superName names a super client for the audit, by the digest that makes it super and its verified name; empty for a
// client that is not super.
func superName(name string, principals []tree.Principal) string {
	i := slices.IndexFunc(principals, func(p tree.Principal) bool { return p.Scheme == tree.Super })
	if i < 0 {
		return ""
	}
	digest := ""
	if i > 0 { // the digest comes right before
		digest, _, _ = strings.Cut(principals[i-1].ID, ":")
	}
	if name != "" {
		return name + " as super:" + digest
	}
	return "super:" + digest
}

// supers is the tree's part of a connection whose client is super, or may become super. Each write as super has a
// record until its answer arrives.
type supers struct {
	session.TreeConnection
	audit      *Audit
	name, from string

	mu sync.Mutex
	// who is the client while it is super; otherwise empty. guarded by mu
	who string
	// under has the writes in flight by their keys; the node bounds their number. guarded by mu
	under map[uint64]*record
}

// SetPrincipals replaces the client's verified principals.
func (s *supers) SetPrincipals(all []tree.Principal) {
	s.mu.Lock()
	s.who = superName(s.name, all)
	s.mu.Unlock()
	s.TreeConnection.SetPrincipals(all)
}

// Write accepts a write, and audits it unless it is a void, which changes nothing.
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

// Next removes and returns the next message to the client. The answer to a write ends its record.
func (s *supers) Next(now time.Time) (session.TreeMessage, bool) {
	message, ok := s.TreeConnection.Next(now)
	if a := message.Answer; ok && a != nil {
		s.end(a.Key, outcomeOf(a))
	}
	return message, ok
}

// Close ends the tree's part of the connection. The answers to writes in flight are lost.
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

// errVoid is the outcome of a write that the log has replaced by a void.
var errVoid = errors.New("the write was given up: a void took its number")

// outcomeOf returns why a write had no effect; nil when it took effect.
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

// describeWrite describes the changes of a write, without data.
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
	return cut(auth.WithoutTokens(b.String()), maxWhat)
}

func describeOps(b *strings.Builder, branch string, ops []tree.Op) {
	if len(ops) == 0 {
		return
	}
	fmt.Fprintf(b, " %s=[", branch)
	for i, op := range ops[:min(len(ops), maxItems)] {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(b, "%s %q", op.Verb(), cut(op.Target(), maxText))
	}
	if len(ops) > maxItems {
		fmt.Fprintf(b, " and %d more", len(ops)-maxItems)
	}
	b.WriteString("]")
}
