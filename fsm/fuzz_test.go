package fsm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// inMemory is what bytes of a log or a snapshot may take. The dearest of two bytes is an empty message in a list.
func inMemory() bound.Cost { return bound.Cost{PerByte: 1 << 10, Fixed: 1 << 20} }

// payloadOf returns the payload of an entry whose message may be anything: a checksum that does not match is refused
// before anything is looked at, and would keep the fuzzer out.
func payloadOf(message []byte) []byte {
	data := append([]byte{entryVersion, 0, 0, 0, 0}, message...)
	binary.LittleEndian.PutUint32(data[1:], checksum(message))
	return data
}

// parts cuts what a fuzzer made into messages, each behind its length; the rest is the last one.
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
	data, err := EncodeEntry(commands)
	if err != nil {
		f.Fatal(err)
	}
	return data[frameSize:]
}

// FuzzDecodeEntry: what is decoded can be encoded, and then decodes to the same.
func FuzzDecodeEntry(f *testing.F) {
	for _, c := range everyCommand() {
		f.Add(entryMessage(f, c, opening(9)))
	}
	f.Add(bytes.Repeat([]byte{commandsField<<3 | 2, 0}, 2000))
	f.Fuzz(func(t *testing.T, message []byte) {
		data := payloadOf(message)
		var commands []session.Command
		var err error
		inMemory().Hold(t, len(data), func() { commands, err = DecodeEntry(data) })
		if err != nil {
			return
		}
		again, err := EncodeEntry(commands)
		if err != nil {
			t.Fatalf("%+v was decoded and cannot be encoded: %v", commands, err)
		}
		if got, err := DecodeEntry(again); err != nil || !reflect.DeepEqual(got, commands) {
			t.Fatalf("DecodeEntry = %+v, %v\nwant %+v", got, err, commands)
		}
	})
}

// FuzzApply gives entries to a state that has sessions, certificates and requests, and to another that is restored from
// a snapshot of the first after half of them: they are the same at the end (I6), an entry that cannot be understood
// changes nothing and stops both, and no entry takes more memory than its size explains.
func FuzzApply(f *testing.F) {
	base := furnished(f)
	var first session.Session
	base.tables.sessions.Scan(func(_ session.ID, r *storedSession) bool { first = r.session(); return false })
	move := session.MoveSession{ID: first.ID, NewOwner: 9, Instance: 1, Attempt: 1}
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
					Node: 254, MS: session.MaxMS, Timeout: time.Second, RequestID: session.RequestID{8},
				},
			), []byte("?"),
		),
	)
	claim := session.ClaimIDs{Node: 1, MS: 1000, Count: session.MaxClaim}
	f.Add(joined(entryMessage(f, claim, opening(7)), entryMessage(f, claim)))
	upgrade := session.UpgradeSession{ID: 1<<56 | 1000<<16 | 99, Timeout: time.Second, Instance: 1, Attempt: 1}
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

// applyAny applies an entry of term 4 that may make no sense, and reports whether it did.
func (r *replica) applyAny(t *testing.T, data []byte) bool {
	t.Helper()
	if _, err := DecodeEntry(data); err == nil {
		r.applyBytes(t, 4, data)
		return true
	}
	index, before := r.Digest()
	r.refuseEntry(t, data)
	if i, after := r.Digest(); i != index || after != before {
		t.Fatalf("an entry that was refused changed the state at %d to another at %d", index, i)
	}
	return false
}

func (r *replica) refuseEntry(t *testing.T, data []byte) {
	t.Helper()
	if err, refused := r.Apply(&raft.Log{Index: r.next, Term: 4, Data: data}).(error); !refused || len(r.fatal) == 0 {
		t.Fatalf("an entry that cannot be decoded was answered with %v, told %v", err, r.fatal)
	}
}

// FuzzRestore gives bytes after the magic to the reader of snapshots. Its checksums keep most of them out; what they
// let through is a state.
func FuzzRestore(f *testing.F) {
	good := furnished(f).snapshot(f)
	f.Add(good[len(snapshotMagic):])
	f.Add(newReplica().snapshot(f)[len(snapshotMagic):])
	f.Add([]byte{0xff, 0xff, 0x03, 0, 0, 0, 0}) // the longest record there may be, and nothing of it
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

// FuzzRestoreRecords gets past the checksums with one record in the place of another: only the header's fields that the
// digest does not cover may differ.
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
				t.Errorf("%v in place of record %d was taken", &m, at)
			}
		}
	})
}

// FuzzRestoreState gets past the checksums and the digest too: any records in any order, with a trailer that fits them.
// What is taken is a state: written and read again it is the same, and all commands work on it.
func FuzzRestoreState(f *testing.F) {
	for _, r := range []*replica{newReplica(), furnished(f)} {
		messages := recordMessages(f, r.snapshot(f))
		f.Add(joined(messages[:len(messages)-1]...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &restorer{tables: newTables()}
		var file []byte
		inMemory().Hold(t, len(b), func() {
			var all []*logv1.Record
			for _, message := range parts(b) {
				m := &logv1.Record{}
				if proto.Unmarshal(message, m) != nil || noUnknownFields(m) != nil || m.GetTrailer() != nil || r.take(m) != nil {
					return
				}
				all = append(all, m)
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
		m, err := r.next()
		if err != nil {
			return messages
		}
		message, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		messages = append(messages, message)
	}
}

// stateHolds fails when what a snapshot brought is no state to go on with.
func stateHolds(t *testing.T, v *View) {
	t.Helper()
	r := newReplica()
	r.tables, r.index, r.term, r.next = &v.tables, v.index, v.term, v.index+1
	written := r.snapshot(t)
	again := restored(t, written)
	if again.tables.digest() != v.tables.digest() || !bytes.Equal(again.snapshot(t), written) {
		t.Fatal("what was restored, written and restored again is another state")
	}
	var moves, ends []session.Command
	v.Ascend(0, func(s session.Session) bool {
		moves = append(moves, session.MoveSession{ID: s.ID, NewOwner: 5, Instance: 6, Attempt: 1 << 63})
		ends = append(ends, closing(9, s))
		return len(moves) < 100
	})
	commands := append(append([]session.Command{session.Configure{Key: session.Key{1}}, opening(200)}, moves...),
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
		t.Fatal("one entry made two states of one (I6)")
	}
}
