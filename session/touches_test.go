package session_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

func unpack(b []byte) ([]session.Touch, error) {
	var all []session.Touch
	r := session.Touches{Bytes: b}
	for {
		touch, ok, err := r.Next()
		if err != nil || !ok {
			return all, err
		}
		all = append(all, touch)
	}
}

// The packed form never changes: nodes of different releases exchange it.
func TestTouchesGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		touches []session.Touch
		want    []byte
	}{
		{"none", nil, nil},
		{"counter alone", []session.Touch{{ID: 5}}, []byte{0<<1 | 1, 5, 0}},
		{
			"neighbours of one millisecond",
			[]session.Touch{{ID: 1<<16 | 3, Age: time.Millisecond}, {ID: 1<<16 | 4}},
			[]byte{1<<1 | 1, 3, 1, 0<<1 | 1, 1, 0},
		},
		{
			"counters of zero",
			[]session.Touch{{ID: 1 << 16}, {ID: 4 << 16, Age: 300 * time.Millisecond}},
			[]byte{1 << 1, 0, 3 << 1, 0xac, 0x02},
		},
		{"counter falls", []session.Touch{{ID: 1<<16 | 9}, {ID: 2<<16 | 7}}, []byte{1<<1 | 1, 9, 0, 1<<1 | 1, 7, 0}},
		{"ages round down", []session.Touch{{ID: 1 << 16, Age: 2*time.Millisecond - 1}}, []byte{1 << 1, 1}},
		{"no age before the touch", []session.Touch{{ID: 1 << 16, Age: -time.Second}}, []byte{1 << 1, 0}},
	} {
		if got := session.AppendTouches(nil, c.touches); !bytes.Equal(got, c.want) {
			t.Errorf("%s: packed %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTouchesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) session.ID {
			node, ms := rapid.Uint64Range(0, uint64(session.MaxNode)).Draw(t, "node"),
				rapid.Uint64Range(0, session.MaxMS).Draw(t, "ms")
			return session.ID(node<<56|ms<<16) + session.ID(rapid.Uint64Range(1, 65536).Draw(t, "counter"))
		}), rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		want := make([]session.Touch, len(ids))
		for i, id := range ids {
			want[i] = session.Touch{
				ID: id, Age: time.Duration(rapid.IntRange(0, 1e8).Draw(t, "age")) * time.Millisecond,
			}
		}
		got, err := unpack(session.AppendTouches(nil, want))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}

func TestTouchesCorrupt(t *testing.T) {
	for name, b := range map[string][]byte{
		"id zero":                      {0, 0},
		"the same id again":            {2, 0, 0, 0},
		"cut after the head":           {2},
		"cut in the counter":           {3},
		"cut in the age":               {2, 0x80},
		"counter given as zero":        {3, 0, 0},
		"counter of more than 16 bits": {3, 0x80, 0x80, 0x04, 0},
		"counter carries over":         {3, 0xff, 0xff, 0x03, 0, 1, 1, 0},
		"high part too large":          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0},
		"high part overflows":          {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 2, 0},
		"age of more than a year":      {2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		if got, err := unpack(b); !errors.Is(err, session.ErrCorruptTouches) {
			t.Errorf("%s: %v, %v, want ErrCorruptTouches", name, got, err)
		}
	}
}

// realistic returns touches of n sessions of three nodes after months of work. The sessions were opened one by one,
// some hundred a second; one in three is still alive and was touched within the last 10 s.
func realistic(n int) []session.Touch {
	random := rand.New(rand.NewPCG(1, 2))
	touches := make([]session.Touch, 0, n)
	for node := range session.ID(3) {
		ms := uint64(20_000_000_000)
		for range n / 3 {
			ms += uint64(random.ExpFloat64() * 10)
			id, _ := session.NextID(0, session.Node(node+1), ms)
			if len(touches) > 0 && touches[len(touches)-1].ID >= id {
				id = touches[len(touches)-1].ID + 1
			}
			touches = append(touches, session.Touch{ID: id, Age: time.Duration(random.IntN(10_000)) * time.Millisecond})
		}
	}
	return touches
}

func BenchmarkTouchesPack(b *testing.B) {
	touches := realistic(99_999)
	b.ReportAllocs()
	var packed []byte
	for b.Loop() {
		packed = session.AppendTouches(packed[:0], touches)
	}
	b.ReportMetric(float64(len(packed))/float64(len(touches)), "B/session")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(touches)), "ns/session")
}

func BenchmarkTouchesUnpack(b *testing.B) {
	touches := realistic(99_999)
	packed := session.AppendTouches(nil, touches)
	b.ReportAllocs()
	for b.Loop() {
		r := session.Touches{Bytes: packed}
		for {
			if _, ok, err := r.Next(); !ok || err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(touches)), "ns/session")
}
