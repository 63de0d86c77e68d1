package session_test

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// FuzzTouchesNext: whatever the bytes are, the ids that are read rise and the ages are within a year. Packing the
// touches and reading them again gives the same. Reading allocates nothing, because packed touches carry no count that
// could lie.
func FuzzTouchesNext(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 5, 0, 1, 1, 7})
	f.Add([]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 2, 0})
	f.Add(session.AppendTouches(nil, realistic(100)))
	f.Add(session.AppendTouches(nil, []session.Touch{{ID: 1}, {ID: 1<<64 - 1, Age: 366 * 24 * time.Hour}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var err error
		touches := make([]session.Touch, 0, len(b)/2+1) // the shortest touch takes two bytes
		bound.Cost{Fixed: 64 << 10}.Hold(t, len(b), func() {
			r := session.Touches{Bytes: b}
			for {
				one, ok, nextErr := r.Next()
				if err = nextErr; !ok || err != nil {
					return
				}
				touches = append(touches, one)
			}
		})
		if len(touches) > len(b)/2 {
			t.Fatalf("%d touches in %d bytes", len(touches), len(b))
		}
		var prev session.ID
		for _, one := range touches {
			if one.ID <= prev || one.Age < 0 || one.Age > 366*24*time.Hour {
				t.Fatalf("%v after %v", one, prev)
			}
			prev = one.ID
		}
		if err != nil {
			return
		}
		if again, err := unpack(session.AppendTouches(nil, touches)); err != nil || !slices.Equal(again, touches) {
			t.Fatalf("read again: %v, %v, want %v", again, err, touches)
		}
	})
}

// FuzzParseID: ParseID reads a text as an id or refuses it with a FieldError. The id is written in one form, which is
// read as the same id, and the id's parts make the id again.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{
		"0x0100000000010000", "0X1f", "ff", "0", "0x", "", "0xffffffffffffffff", "0x10000000000000000", "-1", "+1",
		"1_0", "0x0x1", "０x1",
		"0x" + strings.Repeat("0", 40) + "1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var id session.ID
		var err error
		bound.Cost{PerByte: 16, Fixed: 64 << 10}.Hold(t, len(s), func() { id, err = session.ParseID(s) })
		if err != nil {
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "session_id" {
				t.Errorf("ParseID(%q): %v, want a FieldError of session_id", s, err)
			}
			return
		}
		if id == 0 {
			t.Fatalf("ParseID(%q) = 0, which is no session", s)
		}
		text := id.String()
		if again, err := session.ParseID(text); err != nil || again != id || len(text) != len("0x")+16 {
			t.Fatalf("%q was read as %v and then as %v, %v", s, text, again, err)
		}
		digits := strings.TrimPrefix(strings.ToLower(s), "0x")
		if v, ok := new(big.Int).SetString(digits, 16); !ok || !v.IsUint64() || session.ID(v.Uint64()) != id {
			t.Errorf("%q was read as %v, which is not its number %v", s, id, v)
		}
		if parts := session.ID(id.Node())<<56 | session.ID(id.MS())<<16 | session.ID(id.Counter()); parts != id {
			t.Errorf("the parts of %v make %v", id, parts)
		}
	})
}

// FuzzNextID: whatever a node's mark and clock are, the next id is one of the node and above the mark, or NextID
// refuses (O1 ids from the log, I7 ids are never reused).
func FuzzNextID(f *testing.F) {
	f.Add(uint64(0), uint8(1), uint64(0))
	f.Add(uint64(1)<<56|0xffff, uint8(1), uint64(1))
	f.Add(uint64(2)<<56-1, uint8(1), uint64(5))
	f.Add(uint64(254)<<56|session.MaxMS<<16, uint8(254), uint64(session.MaxMS))
	f.Add(uint64(0), uint8(255), uint64(1)<<40)
	f.Fuzz(func(t *testing.T, mark uint64, number uint8, ms uint64) {
		node := session.Node(number)
		if node.Valid() && mark != 0 {
			mark = mark&(1<<56-1) | uint64(number)<<56 // a mark is 0 or an id of its node
		}
		id, err := session.NextID(session.ID(mark), node, ms)
		switch {
		case err != nil:
			if node.Valid() && ms <= session.MaxMS && mark != uint64(number)<<56|(1<<56-1) {
				t.Errorf("after %#x node %d at %d gets no id: %v", mark, node, ms, err)
			}
		case !node.Valid() || ms > session.MaxMS:
			t.Errorf("node %d at %d was given %v", node, ms, id)
		case id <= session.ID(mark) || id.Node() != node || id.MS() < ms:
			t.Errorf("after %#x node %d at %d was given %v", mark, node, ms, id)
		}
	})
}
