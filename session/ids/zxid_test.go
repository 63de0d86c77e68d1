package ids_test

import (
	"testing"

	"pgregory.net/rapid"

	"holdfast/session/ids"
)

func TestZXID(t *testing.T) {
	for _, tt := range []struct {
		term, index uint64
		want        string
		used        float64
	}{
		{3, 16, "0x300000010", 16.0 / (1 << 32)},
		{1, 0, "0x100000000", 0},
		{0, 0, "0x0", 0},
		{7, 0xfffffffe, "0x7fffffffe", float64(0xfffffffe) / (1 << 32)},
		// ZooKeeper's leader has stepped down here (Z-03); Raft's index, of 64 bits, goes on.
		{7, 0xffffffff, "0x7ffffffff", float64(0xffffffff) / (1 << 32)},
		{7, 1 << 32, "0x700000000", 0},
		{1<<32 - 1, 1<<64 - 1, "0xffffffffffffffff", float64(0xffffffff) / (1 << 32)},
	} {
		z, err := ids.NewZXID(tt.term, tt.index)
		if err != nil || z.String() != tt.want || z.Used() != tt.used || uint64(z.Term()) != tt.term ||
			z.Counter() != uint32(tt.index) {
			t.Errorf("term %d, index %d: %v, %v, %v used", tt.term, tt.index, z, err, z.Used())
		}
	}
	_, err := ids.NewZXID(1<<32, 1)
	wantField(t, err, "term")
	for _, s := range []string{"", "0x", "0x10000000000000000", "-1", "+1", "0xg", "1 ", "0x0x1", "00000000000000001"} {
		_, err := ids.ParseZXID(s)
		wantField(t, err, "zxid")
	}
	for s, want := range map[string]ids.ZXID{
		"0x300000010": 3<<32 | 16, "0X300000010": 3<<32 | 16, "300000010": 3<<32 | 16, "000000000000000A": 10,
	} {
		if z, err := ids.ParseZXID(s); err != nil || z != want {
			t.Errorf("%q is %v, %v, want %v", s, z, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		term, index := uint64(rapid.Uint32().Draw(t, "term")), rapid.Uint64().Draw(t, "index")
		z, err := ids.NewZXID(term, index)
		again, parseErr := ids.ParseZXID(z.String())
		if err != nil || parseErr != nil || again != z || uint64(z) != term<<32|uint64(uint32(index)) {
			t.Errorf("term %d, index %d: %v, %v, and then %v, %v", term, index, z, err, again, parseErr)
		}
	})
}
