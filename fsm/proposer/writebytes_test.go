package proposer

import (
	"errors"
	"strconv"
	"testing"

	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/tree"
)

// TestW7WritesAreBoundedInBytes: the bytes of writes that wait or are on their way are bounded. Other commands find
// room meanwhile, and each end of a write gives its bytes back.
func TestW7WritesAreBoundedInBytes(t *testing.T) {
	write := writing(t, tree.NumberedWrite{
		Session: 1, Attachment: 1, Number: 1,
		Transaction: tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/a", Kind: tree.Persistent, Data: make([]byte, 1000)},
		}},
	})
	encoded, err := entry.EncodeCommand(write)
	if err != nil {
		t.Fatal(err)
	}
	room := 6 * (len(encoded) + writeOverhead) // a connection gets nine sixteenths of it
	inBubble(t, Config{MaxWriteBytes: room}, func(b *bench) {
		t := b.t
		full := func(when string) {
			t.Helper()
			o := <-b.propose(t.Context(), write)
			limit, ok := errors.AsType[*session.LimitError](o.err)
			if !ok || limit.Name != "write_bytes_in_flight" || limit.Limit != strconv.Itoa(room) ||
				limit.RetryAfter != session.BusyRetryAfter {
				t.Errorf("%s: Propose = %v, want the limit of write bytes", when, o.err)
			}
		}
		first := b.propose(t.Context(), write)
		rest := []<-chan outcome{b.propose(t.Context(), write), b.propose(t.Context(), write)}
		full("one on its way and two queued")
		other := b.propose(t.Context(), marked(1))
		b.raft.entry(0).apply()
		if o := <-first; o.err != nil {
			t.Fatal(o.err)
		}
		rest = append(rest, b.propose(t.Context(), write))
		full("three again")
		b.raft.entry(1).fail(raft.ErrNotLeader)
		for _, one := range rest[:2] {
			if o := <-one; !errors.Is(o.err, session.ErrNotLeader) {
				t.Errorf("Propose = %v, want %v", o.err, session.ErrNotLeader)
			}
		}
		if o := <-other; !errors.Is(o.err, session.ErrNotLeader) {
			t.Errorf("the other command: %v, want %v: it was in the same entry", o.err, session.ErrNotLeader)
		}
		b.raft.entry(2).apply()
		if o := <-rest[2]; o.err != nil {
			t.Error(o.err)
		}
		if n := b.writeBudget.Used(); n != 0 {
			t.Errorf("%d bytes are counted for no write", n)
		}
	})
}
