package raftnet

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

func TestMalformedMessages(t *testing.T) {
	const ok = ""
	nested := strings.Repeat("\x91", maxDepth)
	for name, tt := range map[string]struct {
		requests bool
		said     string
		passes   int // bytes
		words    string
	}{
		"type":                 {true, "\x04\x80\x05\x80", 2, "request type of 5, want at most 4"},
		"no type in an answer": {false, "\x05\x80\x05\x80", 4, ok},
		"text":                 {false, "\xdb\x00\x10\x00\x00", 5, ok},
		"text too long":        {false, "\xdb\x00\x20\x00\x01", 4, "text of 2097153, want at most 2097152"},
		"bytes too long": {
			false, "\x80\xc6\xff\xff\xff\xff", 5, "bytes of 4294967295, want at most 2097152",
		},
		"a time": {false, "\xc7\x0c\xff" + strings.Repeat("t", 12) + "\x80", 16, ok},
		"largest extensions": {false, "\xd8\x01" + strings.Repeat("e", 16) + "\xc8\x00\x10\x01" +
			strings.Repeat("e", 16) + "\x80", 39, ok},
		"extension of 8 bits":  {false, "\xc7\x11\x01", 1, "extension of 17, want at most 16"},
		"extension of 16 bits": {false, "\xc8\x00\x11\x01", 2, "extension of 17, want at most 16"},
		"extension of 32 bits": {
			true, "\x00\x81\xa1x\xc9\x7f\xff\xff\xff\xff", 8, "extension of 2147483647, want at most 16",
		},
		"depth":                    {false, nested + "\x07" + nested + "\x07", 18, ok},
		"too deep":                 {false, nested + "\x91", 8, "depth of 9, want at most 8"},
		"empty lists are not deep": {false, nested + "\x90" + nested + "\x80", 18, ok},
		"list":                     {false, "\xdc\x10\x00", 3, ok},
		"list too long":            {false, "\xdd\x00\x00\x10\x01", 4, "list of 4097, want at most 4096"},
		"map":                      {false, "\xdf\x00\x00\x10\x00", 5, ok},
		"map too long":             {false, "\xde\x10\x01", 2, "map of 4097, want at most 4096"},
		"no msgpack":               {false, "\x92\x01\xc1", 2, "a byte that is not msgpack"},
		"snapshot that is no map":  {true, "\x02\x91\x01", 1, "a snapshot's request that is not a map"},
		"snapshot that is nil":     {true, "\x02\xc0", 1, "a snapshot's request that is not a map"},
		"long name": {
			true, "\x02\x81\xd9\x04Size\x01", 2, "a field of a snapshot's request without a short name",
		},
		"name of bytes": {
			true, "\x02\x81\xc4\x04Size\x01", 2, "a field of a snapshot's request without a short name",
		},
		"name that spans names": {
			true, "\x02\x81\xa5S\xffize\x01", 7, "a field of a snapshot's request whose name is not in ASCII",
		},
		"size that is text": {
			true, "\x02\x81\xa4Size\xa11", 7, "a snapshot's size that is not a number, or is negative",
		},
		"size that is a list": {
			true, "\x02\x81\xa4Size\x91\x01", 7, "a snapshot's size that is not a number, or is negative",
		},
		"size below nothing": {
			true, "\x02\x81\xa4Size\xff", 7, "a snapshot's size that is not a number, or is negative",
		},
		"size below nothing, longer": {
			true, "\x02\x81\xa4Size\xd1\x80\x01", 9, "a snapshot's size that is not a number, or is negative",
		},
		"size above int64": {
			true, "\x02\x81\xa4Size\xcf\x80\x00\x00\x00\x00\x00\x00\x00", 15,
			"snapshot of 9223372036854775808, want at most 9223372036854775807",
		},
		"nobody else's size": {true, "\x01\x81\xa4Size\xa11\x00\x80", 11, ok},
		"size in a field":    {true, "\x02\x81\xa1x\x81\xa4Size\xa11\x00\x80", 14, ok},
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, len(tt.said)} {
				s := scanner{requests: tt.requests}
				n, err := passAll(&s, []byte(tt.said), step)
				if want := "malformed raft message: " + tt.words; n != tt.passes || (err != nil) != (tt.words != ok) ||
					err != nil && err.Error() != want {
					t.Errorf("by %d: %d bytes pass, %v; want %d, %s", step, n, err, tt.passes, want)
				}
			}
		})
	}
}

// passAll gives said to s in steps of at most so many bytes, and returns how many pass.
func passAll(s *scanner, said []byte, step int) (int, error) {
	for at := 0; at < len(said); {
		n, err := s.pass(said[at:min(at+max(step, 1), len(said))])
		at += n
		if err != nil {
			return at, err
		}
	}
	return len(said), nil
}

func TestSnapshotSizes(t *testing.T) {
	for said, want := range map[string]uint64{
		"\x00": 0, "\x7f": 127, "\xc0": 0, "\xcc\xff": 255, "\xcd\x01\x00": 256, "\xce\x01\x00\x00\x00": 1 << 24,
		"\xcf\x00\x00\x01\x00\x00\x00\x00\x00": 1 << 40,
		"\xd0\x7f":                             127, "\xd1\x7f\xff": 1<<15 - 1, "\xd2\x7f\xff\xff\xff": 1<<31 - 1,
		"\xd3\x7f\xff\xff\xff\xff\xff\xff\xff": 1<<63 - 1,
	} {
		s := scanner{requests: true}
		request := []byte("\x02\x83\xa1x\x90\xa4Size\x05\xa4Size" + said) // the last one counts, as it does for Raft
		if n, err := s.pass(request); err != nil || n != len(request) || s.snapshot != want {
			t.Errorf("%q: a snapshot of %d bytes, %v; want %d", said, s.snapshot, err, want)
		}
		if after, err := s.pass([]byte{0xc1}); want > 0 && (err != nil || after != 1 || s.snapshot != want-1) {
			t.Errorf("%q: a byte of the snapshot: %v, %d are left", said, err, s.snapshot)
		}
	}
}

// TestAMessageIsBounded: the sum of values is bounded too, even if each is allowed.
func TestAMessageIsBounded(t *testing.T) {
	field := append([]byte("\xc6\x00\x20\x00\x00"), make([]byte, MaxField)...)
	for range 3 { // the second and third message count from 0 again
		var s scanner
		passed, err := s.pass([]byte("\xdc\x10\x00"))
		var refused *malformed
		for err == nil && passed < 2*MaxMessage {
			var n int
			n, err = s.pass(field)
			passed += n
		}
		if !errors.As(err, &refused) || refused.limit != MaxMessage || passed > MaxMessage ||
			passed < MaxMessage-2*MaxField {
			t.Errorf("%d bytes pass, then %v", passed, err)
		}
	}
	var s scanner
	for range 2 * MaxMessage / MaxField {
		if n, err := s.pass(field); err != nil || n != len(field) {
			t.Fatalf("messages of one field each: %v", err)
		}
	}
}

// reference returns the length of the value with which b begins, by the definition of msgpack. ok is false for an
// incomplete value.
func reference(b []byte) (n int, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	number := func(width int) int {
		if len(b) < 1+width {
			ok = false
			return 0
		}
		return int(unsigned(b[1 : 1+width]))
	}
	ok = true
	c := b[0]
	items := 0
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
		n = 1
	case c <= 0x8f:
		n, items = 1, 2*int(c&0xf)
	case c <= 0x9f:
		n, items = 1, int(c&0xf)
	case c <= 0xbf:
		n = 1 + int(c&0x1f)
	case c <= 0xc6:
		n = 1 + 1<<(c-0xc4) + number(1<<(c-0xc4))
	case c <= 0xc9:
		n = 2 + 1<<(c-0xc7) + number(1<<(c-0xc7))
	case c <= 0xcb:
		n = 1 + 4<<(c-0xca)
	case c <= 0xcf:
		n = 1 + 1<<(c-0xcc)
	case c <= 0xd3:
		n = 1 + 1<<(c-0xd0)
	case c <= 0xd8:
		n = 2 + 1<<(c-0xd4)
	case c <= 0xdb:
		n = 1 + 1<<(c-0xd9) + number(1<<(c-0xd9))
	case c <= 0xdd:
		n, items = 1+2<<(c-0xdc), number(2<<(c-0xdc))
	default:
		n, items = 1+2<<(c-0xde), 2*number(2<<(c-0xde))
	}
	if !ok || n > len(b) {
		return 0, false
	}
	for range items {
		k, whole := reference(b[n:])
		if !whole {
			return 0, false
		}
		n += k
	}
	return n, true
}

// FuzzScanner: the scanner ends a message where msgpack and Raft's decoder do, with the same size of a snapshot,
// however the bytes are cut.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		"\x00\x82\xa4Term\x07\xa7Entries\x91\x81\xa4Data\xc4\x02xx",
		"\x02\x82\xa4Size\x03\xa4Term\xcd\x01\x00abc\x01\x80", "\x01\xc9\xff\xff\xff\xff\x01", "\xa0\x85",
		"\xca1234\xcb12345678\xcc1\xcd12\xce1234\xcf12345678\xd01\xd112\xd21234\xd312345678",
		"\xd4t1\xd5t12\xd6t1234\xd7t12345678\xd8t1234567890123456\xc7\x01t1\xc8\x00\x01t1\xc9\x00\x00\x00\x01t1",
		"\xd9\x011\xda\x00\x011\xdb\x00\x00\x00\x011\xc4\x011\xc5\x00\x011\xc6\x00\x00\x00\x011" +
			"\xdc\x00\x011\xdd\x00\x00\x00\x011\xde\x00\x0112\xdf\x00\x00\x00\x0112\x8212\xc012\xc3",
		"\x00\x83\xa7Entries\x82\x80\x80\x81\xaaAppendedAt\xc7\x0c\xff123456789012\xc0" +
			"\xa4Term\xcc\x07\xa6Leader\x93\x01\x02\x03",
		"\x01\x92\x03\xa1x\x04\xdc\x00\x01\xd1\x00\x07",
		"\x02\x84\xa4Size\xd1\x00\x02\xa1x\xd7\xff12345678\xa4Size\xc0\xadConfiguration\xd9\x01c\x03\x81\xa2ID\xa12",
	} {
		f.Add([]byte(s), uint8(2), true)
		f.Add([]byte(s), uint8(1), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, step uint8, requests bool) {
		whole, parts := scanner{requests: requests}, scanner{requests: requests}
		n, err := passAll(&whole, b, len(b))
		m, errParts := passAll(&parts, b, int(step))
		if n != m || whole != parts && err == nil || fmt.Sprint(err) != fmt.Sprint(errParts) {
			t.Fatalf("%q: %d bytes, %v; by %d: %d, %v", b, n, err, step, m, errParts)
		}
		at := 0
		for at < n {
			start := at
			if requests {
				at++
			}
			k, ok := reference(b[at:n])
			if !ok {
				if err == nil && whole.body == 0 && whole.depth == 0 && whole.have == 0 && !whole.begun {
					t.Fatalf("%q: an incomplete message has ended", b[start:n])
				}
				return
			}
			at += k
			one := scanner{requests: requests}
			if passed, err := one.pass(b[start:at]); err != nil || passed != at-start || one.begun || one.depth != 0 ||
				one.body != 0 || one.have != 0 {
				t.Fatalf("%q: a complete message has not ended: %+v, %v", b[start:at], one, err)
			}
			if requests {
				decodes(t, b[start:at], one.snapshot)
			}
			at += int(min(one.snapshot, uint64(n-at)))
		}
	})
}

// decodes checks that Raft's decoder, if it accepts a request, ends where the scanner did, with a snapshot of the same
// size.
func decodes(t *testing.T, said []byte, snapshot uint64) {
	t.Helper()
	request := []any{
		&raft.AppendEntriesRequest{}, &raft.RequestVoteRequest{}, &raft.InstallSnapshotRequest{},
		&raft.TimeoutNowRequest{}, &raft.RequestPreVoteRequest{},
	}[said[0]]
	behind := bytes.Repeat([]byte{0x80}, 64)
	rest := bytes.NewReader(append(said[1:len(said):len(said)], behind...))
	if codec.NewDecoder(rest, &codec.MsgpackHandle{}).Decode(request) != nil {
		return // Raft closes the connection
	}
	if rest.Len() != len(behind) {
		t.Fatalf("%q: the decoder leaves %d bytes, want %d", said, rest.Len(), len(behind))
	}
	if r, ok := request.(*raft.InstallSnapshotRequest); ok && uint64(r.Size) != snapshot {
		t.Fatalf("%q: a snapshot of %d bytes, for the decoder of %d", said, snapshot, r.Size)
	}
}
