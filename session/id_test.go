package session_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// The worked example of the spec (section 3.2): milliseconds 0x7EDDBEB1B9 of node 1.
func TestIDLayout(t *testing.T) {
	id, err := session.NextID(0, 1, 0x7EDDBEB1B9)
	if err != nil || id != 0x017EDDBEB1B90000 {
		t.Fatalf("NextID = %v, %v, want 0x017eddbeb1b90000", id, err)
	}
	if id.Node() != 1 || id.MS() != 0x7EDDBEB1B9 || id.Counter() != 0 {
		t.Errorf("parts of %v: %d, %#x, %d", id, id.Node(), id.MS(), id.Counter())
	}
	for range 65535 {
		if id, err = session.NextID(id, 1, 0x7EDDBEB1B9); err != nil {
			t.Fatal(err)
		}
	}
	if id != 0x017EDDBEB1B9FFFF {
		t.Errorf("the 65,536th id is %v", id)
	}
	if id, err = session.NextID(id, 1, 0x7EDDBEB1B9); id != 0x017EDDBEB1BA0000 || err != nil {
		t.Errorf("the 65,537th id is %v, %v: the counter carries (I-10)", id, err)
	}
}

// O1, I7: whatever the clocks do, ids of a node rise.
func TestO1IDsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := session.Node(rapid.IntRange(1, 254).Draw(t, "node"))
		mark := session.ID(0)
		for range rapid.IntRange(1, 50).Draw(t, "opens") {
			ms := rapid.Uint64Range(0, 1000).Draw(t, "ms")
			id, err := session.NextID(mark, node, ms)
			if err != nil || id <= mark || id.Node() != node || id.MS() < ms {
				t.Fatalf("NextID(%v, %d, %d) = %v, %v", mark, node, ms, id, err)
			}
			mark = id
		}
	})
}

func TestNextIDRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		mark session.ID
		node session.Node
		ms   uint64
		want error
	}{
		{"node 0", 0, 0, 1, session.ErrInvalid},
		{"node 255 (I-32)", 0, 255, 1, session.ErrInvalid},
		{"ms of 41 bits", 0, 1, session.MaxMS + 1, session.ErrInvalid},
		{"56 bits used up", 0x01FFFFFFFFFFFFFF, 1, 0, session.ErrIDsUsedUp},
		{"56 bits used up, the last node", 0xFEFFFFFFFFFFFFFF, 254, 5, session.ErrIDsUsedUp},
	} {
		if id, err := session.NextID(c.mark, c.node, c.ms); !errors.Is(err, c.want) || id != 0 {
			t.Errorf("%s: %v, %v, want %v", c.name, id, err, c.want)
		}
	}
	if id, err := session.NextID(0x01FFFFFFFFFFFFFE, 1, 0); err != nil || id != 0x01FFFFFFFFFFFFFF {
		t.Errorf("the last id of node 1: %v, %v", id, err)
	}
}

func TestIDText(t *testing.T) {
	for text, want := range map[string]session.ID{
		"0x017eddbeb1b90000":  0x017EDDBEB1B90000,
		"0X017EDDBEB1B90000":  0x017EDDBEB1B90000,
		"17eddbeb1b90000":     0x017EDDBEB1B90000,
		"0xffffffffffffffff":  1<<64 - 1,
		"1":                   1,
		"":                    0,
		"0x":                  0,
		"0x0":                 0,
		"0x1ffffffffffffffff": 0,
		"-1":                  0,
		"x1":                  0,
		"1 ":                  0,
	} {
		got, err := session.ParseID(text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("ParseID(%q) = %v, %v, want %v", text, got, err, want)
		}
		if err != nil && !errors.Is(err, session.ErrInvalid) {
			t.Errorf("ParseID(%q): %v is no ErrInvalid", text, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := session.ID(rapid.Uint64Min(1).Draw(t, "id"))
		if got, err := session.ParseID(id.String()); err != nil || got != id || len(id.String()) != 18 {
			t.Fatalf("ParseID(%v) = %v, %v", id, got, err)
		}
	})
}

func TestIDTime(t *testing.T) {
	at := time.Date(2027, 3, 4, 5, 6, 7, 89e6, time.UTC)
	id, err := session.NextID(0, 9, session.MS(at))
	if err != nil || !id.Time().Equal(at) {
		t.Errorf("time of %v = %v, %v, want %v", id, id.Time(), err, at)
	}
	if got := session.MS(session.Epoch().Add(-time.Hour)); got != 0 {
		t.Errorf("MS before the epoch = %d, want 0", got)
	}
	if got := session.TimeOfMS(session.MaxMS).Year(); got != 2060 {
		t.Errorf("ids end in %d, want 2060", got)
	}
}
