package raftnet

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

const (
	// MaxField is the length of the longest bytes or text in a message of Raft. It is above the size of every log
	// entry, also with the largest command of the tree.
	MaxField = 2 << 20
	// MaxMessage is the length of the longest message of Raft, without a following snapshot. It is above the size of
	// all entries of a request together.
	MaxMessage = 512 << 20
	// MaxItems is the length of the longest list or map in a message of Raft. It is above the number of entries of a
	// request.
	MaxItems = 4096
	// maxExtension is the length of the longest msgpack extension. A time takes 12 bytes.
	maxExtension = 16
	// maxDepth is the deepest nesting of lists and maps. Raft's messages nest three deep: a request, its entries, an
	// entry.
	maxDepth = 8
)

// The types of Raft's requests.
const (
	typeAppendEntries   = 0
	typeVote            = 1
	typeInstallSnapshot = 2
	typePreVote         = 4
	maxType             = 4
)

// malformed says why the bytes on a connection are not Raft's messages.
type malformed struct {
	what       string
	got, limit uint64
}

func (m *malformed) Error() string {
	if m.limit == 0 {
		return "malformed raft message: " + m.what
	}
	return fmt.Sprintf("malformed raft message: %s of %d, want at most %d", m.what, m.got, m.limit)
}

// scanner follows the messages on one direction of a connection of Raft. The decoder of Raft's library believes any
// announced length of a time, which in an unknown field is extension 0xff, and allocates it before any byte of it has
// arrived. So the decoder gets only bytes that the scanner has found to be bounded. The scanner knows msgpack and where
// a message ends, but not what messages mean. It skips fields of bytes, some of which Raft decodes later:
//
//	answers   value value ...            of each answer the error and the response
//	requests  (type value [snapshot])... a type is one byte; a snapshot has the length in the Size field of its request
//
// The zero value follows answers. It is a pure data structure.
type scanner struct {
	requests bool

	// kind is the type of the present request, if begun.
	kind  byte
	begun bool
	// message is the length of the present message so far, with the announced bytes.
	message uint64
	// left is the number of missing values of each open list or map, with two for each pair of a map. depth is the
	// number of open lists and maps.
	left  [maxDepth]uint64
	depth int
	// head[:have] are the bytes so far of the head of a value. The complete head determines where the value ends.
	head [32]byte
	have int
	// body is the number of missing bytes of a value's body.
	body uint64
	// sized says that the next value is the Size of a snapshot. size is the newest such value. snapshot is the number
	// of missing bytes of the snapshot.
	sized          bool
	size, snapshot uint64
}

// pass returns the number of bytes of b that Raft may read, and a *malformed, after which Raft may read no more.
// Without an error it returns less than all of b only at the end of a request or a snapshot, so that Raft's buffer
// never holds bytes of the next one.
func (s *scanner) pass(b []byte) (int, error) {
	for n := 0; n < len(b); {
		rest := uint64(len(b) - n)
		switch {
		case s.snapshot > 0:
			k := min(s.snapshot, rest)
			s.snapshot -= k
			n += int(k)
		case s.body > 0:
			k := min(s.body, rest)
			s.body -= k
			n += int(k)
			if s.body == 0 {
				s.end()
			}
		default:
			if err := s.next(b[n]); err != nil {
				return n, err
			}
			n++
		}
		if s.requests && !s.begun {
			return n, nil
		}
	}
	return len(b), nil
}

// under reports whether a request is incomplete.
func (s *scanner) under() bool { return s.begun || s.snapshot > 0 }

// long reports whether the newest request, complete or not, is of a kind that may be large.
func (s *scanner) long() bool { return isLong(s.kind) }

func isVote(kind byte) bool { return kind == typeVote || kind == typePreVote }

func isLong(kind byte) bool { return kind == typeAppendEntries || kind == typeInstallSnapshot }

// between reports whether the next byte begins a value outside of any list or map.
func (s *scanner) between() bool { return s.depth == 0 && s.have == 0 && s.body == 0 }

// next processes a byte that is not part of a body.
func (s *scanner) next(c byte) error {
	if s.requests && !s.begun {
		if c > maxType {
			return &malformed{"request type", uint64(c), maxType}
		}
		s.kind, s.begun, s.size = c, true, 0
		return nil
	}
	s.head[s.have] = c
	s.have++
	want, err := s.headBytes()
	if err != nil || s.have < want {
		return err
	}
	err = s.value(s.head[:want])
	s.have = 0
	return err
}

// headBytes returns the length of the head that begins with head[0]. The names of a snapshot's fields are all head.
func (s *scanner) headBytes() (int, error) {
	c := s.head[0]
	if s.snapshotRequest() {
		switch {
		case s.depth == 0 && !isMap(c):
			return 0, &malformed{what: "a snapshot's request that is not a map"}
		case s.named() && c&0xe0 != 0xa0:
			return 0, &malformed{what: "a field of a snapshot's request without a short name"}
		case s.named():
			return 1 + int(c&0x1f), nil
		}
	}
	switch c {
	case 0xc1:
		return 0, &malformed{what: "a byte that is not msgpack"}
	case 0xc4, 0xc7, 0xcc, 0xd0, 0xd9: // bytes, extension, numbers, text: of 8 bits
		return 2, nil
	case 0xc5, 0xc8, 0xcd, 0xd1, 0xda, 0xdc, 0xde: // the same, list and map: of 16
		return 3, nil
	case 0xc6, 0xc9, 0xca, 0xce, 0xd2, 0xdb, 0xdd, 0xdf: // the same, float: of 32
		return 5, nil
	case 0xcb, 0xcf, 0xd3: // numbers of 64
		return 9, nil
	}
	return 1, nil
}

func isMap(c byte) bool { return c&0xf0 == 0x80 || c == 0xde || c == 0xdf }

func (s *scanner) snapshotRequest() bool { return s.requests && s.kind == typeInstallSnapshot }

// named reports whether the next value is the name of a field of the request itself.
func (s *scanner) named() bool { return s.depth == 1 && s.left[0]%2 == 0 }

// value processes the complete head of a value.
func (s *scanner) value(head []byte) error {
	s.message += uint64(len(head))
	sized := s.sized
	s.sized = false
	if s.snapshotRequest() && s.named() {
		return s.name(head[1:])
	}
	if sized {
		size, err := snapshotSize(head)
		if err != nil {
			return err
		}
		s.size = size
	}
	c := head[0]
	argument := unsigned(head[1:])
	switch {
	case c&0xf0 == 0x80:
		return s.open("map", uint64(c&0xf), 2)
	case c == 0xde, c == 0xdf:
		return s.open("map", argument, 2)
	case c&0xf0 == 0x90:
		return s.open("list", uint64(c&0xf), 1)
	case c == 0xdc, c == 0xdd:
		return s.open("list", argument, 1)
	case c&0xe0 == 0xa0:
		return s.holds("text", uint64(c&0x1f), MaxField)
	case c >= 0xd9 && c <= 0xdb:
		return s.holds("text", argument, MaxField)
	case c >= 0xc4 && c <= 0xc6:
		return s.holds("bytes", argument, MaxField)
	case c >= 0xc7 && c <= 0xc9:
		return s.extends(argument)
	case c >= 0xd4 && c <= 0xd8:
		return s.extends(1 << (c - 0xd4))
	}
	return s.holds("", 0, 0)
}

// name processes the name of a field of a snapshot's request. The decoder searches for the name in one text of all
// names, separated by bytes outside ASCII. A name with such bytes could match across two names.
func (s *scanner) name(name []byte) error {
	for _, c := range name {
		if c >= utf8.RuneSelf {
			return &malformed{what: "a field of a snapshot's request whose name is not in ASCII"}
		}
	}
	s.sized = string(name) == "Size"
	s.end()
	return nil
}

// unsigned returns the big-endian number in b, which has at most 8 bytes.
func unsigned(b []byte) uint64 {
	var v [8]byte
	copy(v[len(v)-len(b):], b)
	return binary.BigEndian.Uint64(v[:])
}

// snapshotSize returns the size of a snapshot from the head of its value.
func snapshotSize(head []byte) (uint64, error) {
	c, size := head[0], unsigned(head[1:])
	switch {
	case c == 0xc0: // nil
		return 0, nil
	case c <= 0x7f:
		return uint64(c), nil
	case c >= 0xcc && c <= 0xcf:
	case c >= 0xd0 && c <= 0xd3 && head[1] <= 0x7f:
	default:
		return 0, &malformed{what: "a snapshot's size that is not a number, or is negative"}
	}
	if size > math.MaxInt64 {
		return 0, &malformed{"snapshot", size, math.MaxInt64}
	}
	return size, nil
}

// open begins a list or map of n items, with the given number of values for each item.
func (s *scanner) open(what string, n, values uint64) error {
	switch {
	case n == 0:
		return s.holds("", 0, 0)
	case n > MaxItems:
		return &malformed{what, n, MaxItems}
	case s.depth == maxDepth:
		return &malformed{"depth", maxDepth + 1, maxDepth}
	}
	s.left[s.depth] = n * values
	s.depth++
	return nil
}

// holds begins a value with a body of n bytes, at most limit.
func (s *scanner) holds(what string, n, limit uint64) error {
	s.message += n
	switch {
	case n > limit:
		return &malformed{what, n, limit}
	case s.message > MaxMessage:
		return &malformed{"message", s.message, MaxMessage}
	}
	if s.body = n; n == 0 {
		s.end()
	}
	return nil
}

// extends begins an extension of n bytes and its type.
func (s *scanner) extends(n uint64) error {
	if n > maxExtension {
		return &malformed{"extension", n, maxExtension}
	}
	return s.holds("", n+1, n+1)
}

// end ends a value, and each list or map whose last value this was. At depth 0 it ends the message.
func (s *scanner) end() {
	for s.depth > 0 {
		if s.left[s.depth-1]--; s.left[s.depth-1] > 0 {
			return
		}
		s.depth--
	}
	if s.snapshotRequest() {
		s.snapshot = s.size
	}
	s.begun, s.message = false, 0
}
