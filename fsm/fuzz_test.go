package fsm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"holdfast/fsm/entry"
	"holdfast/fsm/sessions"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// inMemory bounds the memory that bytes of a log or a snapshot may take. The most expensive two bytes are an empty
// message in a list.
func inMemory() bound.Cost { return bound.Cost{PerByte: 1 << 10, Fixed: 1 << 20} }

// payloadOf returns the payload of an entry with any message and the right checksum. With a wrong checksum no fuzzed
// message would ever be decoded.
func payloadOf(message []byte) []byte { return entry.Join([][]byte{message}, entry.Clocks{}) }

// parts cuts fuzzed bytes into messages, each after its length. The rest is the last message.
func parts(b []byte) (all [][]byte) {
	for len(b) > 0 {
		part, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return append(all, b)
		}
		all, b = append(all, part), b[n:]
	}
	return all
}

// joined is the inverse of parts.
func joined(all ...[]byte) (b []byte) {
	for _, one := range all {
		b = protowire.AppendBytes(b, one)
	}
	return b
}

func entryMessage(f *testing.F, commands ...session.Command) []byte {
	f.Helper()
	data, err := entry.Encode(commands)
	if err != nil {
		f.Fatal(err)
	}
	return data[entry.FrameSize:]
}

// FuzzApply gives entries to a state that has sessions, certificates and requests. A second state is restored from a
// snapshot of the first after half of the entries, and gets the other half too: at the end both are the same (I6 same
// state). An entry that cannot be understood changes nothing and halts the state. No entry takes more memory than its
// size explains.
func FuzzApply(f *testing.F) {
	base := furnished(f)
	var first session.Session
	base.tables.sessions.Ascend(0, func(r *sessions.Row) bool { first = r.Session(); return false })
	move := session.MoveSession{ID: first.ID, NewOwner: 9, Instance: 1, Attempt: 1, Named: 1}
	f.Add(
		joined(entryMessage(f, opening(7), opening(7)), entryMessage(f, move, move),
			entryMessage(f, closing(4, first))),
	)
	f.Add(
		joined(entryMessage(f, closing(4, first)), entryMessage(f, opening(3)),
			entryMessage(f, session.ForgetRequests{UpToIndex: 9}), entryMessage(f, opening(3))),
	)
	f.Add(
		joined(
			entryMessage(
				f, session.OpenSession{
					Node: 254, MS: session.MaxMS, Spec: session.Spec{Timeout: time.Second},
					RequestID: session.RequestID{8},
				},
			), []byte("?"),
		),
	)
	claim := session.ClaimIDs{Node: 1, MS: 1000, Count: session.MaxClaim}
	f.Add(joined(entryMessage(f, claim, opening(7)), entryMessage(f, claim)))
	upgrade := session.UpgradeSession{
		ID: 1<<56 | 1000<<16 | 99, Spec: session.Spec{Timeout: time.Second},
		Instance: 1, Attempt: 1,
	}
	f.Add(joined(entryMessage(f, claim, upgrade, upgrade), entryMessage(f, upgrade)))
	snapshot := base.snapshot(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, follower := restored(t, snapshot), (*replica)(nil)
		messages := parts(b)
		inMemory().Hold(t, len(b), func() {
			for i, message := range messages {
				if i == len(messages)/2 {
					follower = restored(t, r.snapshot(t))
				}
				if !r.applyAny(t, payloadOf(message)) {
					break
				}
				if follower != nil {
					follower.applyBytes(t, 4, payloadOf(message))
				}
			}
		})
		if follower == nil {
			return
		}
		same(t, follower, r)
		if len(r.fatal) == 0 { // a halted state makes no snapshots
			same(t, restored(t, r.snapshot(t)), r)
		}
	})
}

// applyAny applies an entry of term 4 that may be no valid entry, and reports whether it was applied.
func (r *replica) applyAny(t *testing.T, data []byte) bool {
	t.Helper()
	if _, err := entry.Decode(data); err == nil {
		r.applyBytes(t, 4, data)
		return true
	}
	index, before := r.Digest()
	r.refuseEntry(t, data)
	if i, after := r.Digest(); i != index || after != before {
		t.Fatalf("a refused entry changed the state of index %d, which is now at %d", index, i)
	}
	return false
}

func (r *replica) refuseEntry(t *testing.T, data []byte) {
	t.Helper()
	if err, refused := r.Apply(&raft.Log{Index: r.next, Term: 4, Data: data}).(error); !refused || len(r.fatal) == 0 {
		t.Fatalf("Apply of an entry that cannot be decoded = %v; Fatal was told %v", err, r.fatal)
	}
}

// FuzzRestore restores a snapshot of the magic and fuzzed bytes. The checksums refuse most of them; the others are
// valid states.
func FuzzRestore(f *testing.F) {
	good := furnished(f).snapshot(f)
	f.Add(good[len(snapshotMagic):])
	f.Add(newReplica().snapshot(f)[len(snapshotMagic):])
	f.Add([]byte{0xff, 0xff, 0x03, 0, 0, 0, 0}) // the length of the longest record, and no message
	f.Fuzz(func(t *testing.T, b []byte) {
		var v *View
		var err error
		inMemory().Hold(t, len(b), func() {
			v, err = readSnapshot(io.MultiReader(strings.NewReader(snapshotMagic), bytes.NewReader(b)))
		})
		if err == nil {
			stateHolds(t, v)
		}
	})
}

// FuzzRestoreRecords replaces one record of a snapshot by another with the right checksum. Restore accepts it only if
// no field differs, or one of the header's fields that the digest does not cover.
func FuzzRestoreRecords(f *testing.F) {
	good := furnished(f).snapshot(f)
	for i, message := range recordMessages(f, good) {
		f.Add(message, uint8(i))
	}
	f.Fuzz(func(t *testing.T, message []byte, at uint8) {
		var m logv1.Record
		if proto.Unmarshal(message, &m) != nil {
			return
		}
		all := records(t, good)
		all[int(at)%len(all)] = &m
		if _, err := readSnapshot(bytes.NewReader(assemble(t, all))); err == nil {
			if m.GetHeader() == nil && !bytes.Equal(assemble(t, all), good) {
				t.Errorf("Restore accepts %v in place of record %d", &m, at)
			}
		}
	})
}

// FuzzRestoreState restores fuzzed records in any order, with right checksums and a trailer that fits them. A state
// that Restore accepts is valid: writing it and reading it again gives the same state, and all commands work on it.
func FuzzRestoreState(f *testing.F) {
	for _, r := range []*replica{newReplica(), furnished(f)} {
		messages := recordMessages(f, r.snapshot(f))
		f.Add(joined(messages[:len(messages)-1]...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &restorer{tables: emptyTables()}
		var file []byte
		inMemory().Hold(t, len(b), func() {
			var all []*logv1.Record
			for _, message := range parts(b) {
				m := &logv1.Record{}
				one, err := recordOf(message)
				if err != nil || proto.Unmarshal(message, m) != nil || m.GetTrailer() != nil || r.add(one) != nil {
					return
				}
				all = append(all, m)
			}
			if r.treeRestorer == nil || r.finishTree() != nil {
				return
			}
			digest := r.tables.digest()
			trailer := &logv1.Trailer{Records: uint64(len(all)), Digest: digest[:]}
			file = assemble(t, append(all, &logv1.Record{Record: &logv1.Record_Trailer{Trailer: trailer}}))
		})
		if file == nil {
			return
		}
		if v, err := readSnapshot(bytes.NewReader(file)); err == nil {
			stateHolds(t, v)
		}
	})
}

func recordMessages(f *testing.F, snapshot []byte) (messages [][]byte) {
	f.Helper()
	r := recordReader{r: bufio.NewReader(bytes.NewReader(snapshot))}
	if err := r.magic(); err != nil {
		f.Fatal(err)
	}
	for {
		message, err := r.message()
		if err != nil {
			return messages
		}
		messages = append(messages, bytes.Clone(message))
	}
}

// stateHolds fails unless v is a valid state: it can be written, restored, and changed by all commands.
func stateHolds(t *testing.T, v *View) {
	t.Helper()
	r := newReplica()
	r.tables, r.index, r.term, r.next = &v.tables, v.index, v.term, v.index+1
	written := r.snapshot(t)
	again := restored(t, written)
	if again.tables.digest() != v.tables.digest() || !bytes.Equal(again.snapshot(t), written) {
		t.Fatal("writing a restored state and restoring it again gives another state")
	}
	var moves, ends []session.Command
	v.Ascend(0, func(s session.Session) bool {
		moves = append(moves, session.MoveSession{ID: s.ID, NewOwner: 5, Instance: 6, Attempt: 1 << 63, Named: 1})
		ends = append(ends, closing(9, s))
		return len(moves) < 100
	})
	commands := append(append([]session.Command{begins(session.Configure{Key: session.Key{1}}), opening(200)}, moves...),
		ends...)
	commands = append(commands, session.ForgetRequests{UpToIndex: 1 << 63})
	for _, one := range []*replica{r, again} {
		for _, result := range one.apply(t, 9, commands...) {
			if result.Err != nil && !errors.Is(result.Err, session.ErrIDsUsedUp) &&
				!errors.Is(result.Err, session.ErrMoved) && !errors.Is(result.Err, session.ErrExpired) {
				t.Fatalf("a command on a restored state was refused: %v", result.Err)
			}
		}
	}
	if _, a := r.Digest(); a != again.tables.digest() {
		t.Fatal("two replicas of one state differ after the same entry (I6)")
	}
}
