package pending_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
)

// TestAdmission: X8. A refused number stays the one that must come next, whoever refused it.
func TestAdmission(t *testing.T) {
	expects := func(n *node, number, want uint64) {
		t.Helper()
		var gap *tree.GapError
		if err := n.Accept(numbered(number), n.state, n.now); !errors.As(err, &gap) || gap.Expected != want {
			t.Errorf("write %d: %v, want a gap before %d", number, err, want)
		}
	}
	n := newNode(t, nil)
	n.takes(1, 5)
	expects(n, 7, 6)
	n.Refuse(numbered(4), n.state, n.now)
	expects(n, 5, 4)
	n.now = n.now.Add(time.Hour) // however long it takes
	n.Due(n.state, n.now)
	expects(n, 5, 4)
	n.accept(4, 5, 6)
	expects(n, 8, 7)
	expects(n, 3, 7)
	n.sends(4, 5, 6)

	n = newNode(t, func(l *pending.Limits) { l.Unanswered = 2 })
	n.takes(1, 5)
	n.accept(4, 5)
	var limit *session.LimitError
	if err := n.Accept(numbered(6), n.state, n.now); !errors.As(err, &limit) || limit.Name != "unanswered_writes" {
		t.Errorf("a third write: %v", err)
	}
	expects(n, 7, 6)
}

// TestBytes: bodies count for the session and for the node until they are answered, replaced or ended (X1 numbered
// writes, W7 size bounds).
func TestBytes(t *testing.T) {
	n := newNode(t, func(l *pending.Limits) { l.Bytes, l.NodeBytes = 300, 534 }) // 300 for a connection
	write := func(id session.ID, number uint64, size int) string {
		w := pending.Write{Session: id, Attachment: 1, Number: number, Weight: 1, Body: make([]byte, size)}
		var limit *session.LimitError
		if err := n.Accept(w, n.state, n.now); errors.As(err, &limit) {
			return limit.Name
		} else if err != nil {
			t.Fatal(err)
		}
		return ""
	}
	if got := write(1, 1, 301-pending.Overhead); got != "unanswered_write_bytes" {
		t.Errorf("301 bytes: %q", got)
	}
	if got := write(1, 1, 300-pending.Overhead); got != "" {
		t.Errorf("300 bytes: %q", got)
	}
	if got := write(2, 1, 101-pending.Overhead); got != "pending_write_bytes" {
		t.Errorf("401 bytes of a connection: %q", got)
	}
	other := pending.Write{Session: 3, Attachment: 1, Number: 1, Weight: 1, Connection: 1, Body: make([]byte, 10)}
	if err := n.Accept(other, n.state, n.now); err != nil { // a principal has three quarters of the node's bytes
		t.Errorf("74 bytes of another connection: %v", err)
	}
	n.Gone(3)
	void := pending.Write{Session: 1, Attachment: 1, Number: 1, Weight: 1, Void: true}
	if err := n.Accept(void, n.state, n.now); err != nil {
		t.Fatal(err)
	}
	if got := write(2, 1, 172); got != "" {
		t.Errorf("236 bytes beside a void: %q", got)
	}
	n.Gone(1)
	n.Applied([]pending.Outcome{{Session: 2, Attachment: 1, Number: 1}}, n.now)
	if sessions, bytes := n.Waiting(); sessions != 0 || bytes != 0 {
		t.Errorf("%d sessions and %d bytes are left", sessions, bytes)
	}
}

// TestW9ManyConnectionsOfAPrincipalLeaveMemory: however many connections a principal has, it leaves memory for
// another's write, which is in the next message.
func TestW9ManyConnectionsOfAPrincipalLeaveMemory(t *testing.T) {
	n := newNode(t, nil)
	refused, next := 0, session.ID(0)
	write := func(connection, principal uint64, size int) (session.ID, error) {
		next++
		return next, n.Accept(pending.Write{
			Session: next, Attachment: 1, Number: 1, Weight: 1, Connection: connection, Principal: principal,
			Body: make([]byte, size),
		}, n.state, n.now)
	}
	for i := range uint64(256) {
		switch _, err := write(i%16, 1, 1_000_000); {
		case errors.Is(err, session.ErrLimit):
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("16 connections have filled nothing")
	}
	for range 8 {
		if _, err := write(98, 2, 1_000_000); err != nil {
			t.Errorf("1 MB of 8 of another principal: %v", err)
		}
	}
	small, err := write(99, 3, 100)
	if err != nil {
		t.Fatalf("100 bytes of a third principal: %v", err)
	}
	for range 3 {
		for _, one := range n.Next(n.now) {
			if one.Session == small && one.Principal == 3 {
				return
			}
		}
	}
	t.Error("the small write is in none of the next three messages")
}

// TestQuiet: a session that has been quiet is acknowledged until the state shows it (X3 kept results), and then
// forgotten.
func TestQuiet(t *testing.T) {
	n := newNode(t, nil)
	due := func(want ...session.Acknowledged) {
		t.Helper()
		if got := n.Due(n.state, n.now); !slices.Equal(got, want) {
			t.Fatalf("acknowledges %v, want %v", got, want)
		}
	}
	n.accept(1)
	n.sends(1)
	n.takes(1, 1)
	n.applied(1, nil)
	n.Acknowledged(id, attachment, 1, n.state, n.now)
	n.now = begun.Add(10*time.Second - 1)
	due()
	n.now = begun.Add(10 * time.Second)
	due(session.Acknowledged{Session: id, UpTo: 1})
	due()
	n.now = n.now.Add(10 * time.Second)
	due(session.Acknowledged{Session: id, UpTo: 1}) // the first was lost
	n.state.Acknowledge(uint64(id), 1)
	n.now = n.now.Add(10 * time.Second)
	due()
	if _, ok := n.Wake(); ok {
		t.Error("it still waits for something")
	}
}

// TestAcknowledgedTooMuch: a client cannot acknowledge what it has no results of. Otherwise it could have the results
// dropped that belong to the next client process.
func TestAcknowledgedTooMuch(t *testing.T) {
	n := newNode(t, nil)
	n.accept(1)
	n.sends(1)
	n.takes(1, 1)
	n.applied(1, nil)
	n.Acknowledged(id, attachment, 1<<60, n.state, n.now)
	n.takes(2, 4) // by the next process, whose move this node has not applied
	n.now = n.now.Add(10 * time.Second)
	if all := n.Due(n.state, n.now); len(all) != 1 || all[0].UpTo != 1 {
		t.Errorf("acknowledges %v", all)
	}
}

// TestAcknowledgedFirst: an acknowledgement may come before the attachment's first write, which may be a repeat.
func TestAcknowledgedFirst(t *testing.T) {
	n := newNode(t, nil)
	n.takes(1, 4)
	n.Acknowledged(id, attachment, 2, n.state, n.now)
	n.accept(3)
	n.sends(3)
}

// TestBatches: bounded in count and bytes, and every session has its turn (W7).
func TestBatches(t *testing.T) {
	n := newNode(t, nil)
	write := func(id session.ID, number uint64, size int) {
		w := pending.Write{Session: id, Attachment: 1, Number: number, Weight: 1, Body: make([]byte, size)}
		if err := n.Accept(w, n.state, n.now); err != nil {
			t.Fatal(err)
		}
	}
	for id := range session.ID(8) {
		for number := range uint64(200) {
			write(id+1, number+1, 10)
		}
	}
	first := n.Next(n.now)
	seen := map[session.ID]int{}
	for _, one := range first {
		seen[one.Session]++
	}
	if len(first) != session.MaxPeerBatch || len(seen) != 8 || seen[1] != 128 {
		t.Errorf("%d writes of %v", len(first), seen)
	}
	if rest := len(n.Next(n.now)); rest != 1600-session.MaxPeerBatch {
		t.Errorf("then %d", rest)
	}
	write(20, 1, 700<<10)
	write(21, 1, 700<<10)
	write(22, 1, 100)
	for want := range 2 {
		if got := n.Next(n.now); len(got) != 1+want {
			t.Errorf("batch %d has %d writes", want, len(got))
		}
	}
}

// TestW9ConnectionsTakeTurns: whatever other connections have queued, through however many sessions, a write of a
// further one is in the next message, and connections send the same bytes.
func TestW9ConnectionsTakeTurns(t *testing.T) {
	n := newNode(t, nil)
	next := session.ID(0)
	write := func(connection uint64, size int) session.ID {
		next++
		w := pending.Write{
			Session: next, Attachment: 1, Number: 1, Weight: 1, Connection: connection, Body: make([]byte, size),
		}
		if err := n.Accept(w, n.state, n.now); err != nil {
			t.Fatal(err)
		}
		return next
	}
	for range 100 { // sessions of one connection
		write(1, 100<<10)
	}
	for connection := range uint64(10) {
		write(2+connection, 900<<10)
	}
	bytes := map[uint64]int{}
	sends := func() (ids []session.ID) {
		for _, one := range n.Next(n.now) {
			bytes[one.Connection] += len(one.Command)
			ids = append(ids, one.Session)
		}
		return ids
	}
	for range 3 {
		sends()
	}
	small := write(99, 100)
	if ids := sends(); !slices.Contains(ids, small) {
		t.Errorf("a write of 100 bytes is behind those of others: %v are sent", ids)
	}
	for len(sends()) > 0 && len(bytes) < 12 {
	}
	if bytes[1] > 2<<20 {
		t.Errorf("a connection with 100 sessions has sent %d bytes, while others were about to send 900 KiB", bytes[1])
	}
}
