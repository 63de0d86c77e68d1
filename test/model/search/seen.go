package search

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"unsafe"
)

// bytesOf is a state as its bytes in memory. A state has only byte fields, so there are no gaps and no pointers.
func bytesOf[S any](s *S) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

// mustBeBytes panics if a state has a field that is not a byte.
func mustBeBytes[S any]() {
	var check func(t reflect.Type)
	check = func(t reflect.Type) {
		switch t.Kind() { //nolint:exhaustive // all others are refused
		case reflect.Uint8:
		case reflect.Array:
			check(t.Elem())
		case reflect.Struct:
			for field := range t.Fields() {
				check(field.Type)
			}
		default:
			panic(fmt.Sprintf("search %v: a state has a %v, and must have bytes only", reflect.TypeFor[S](), t))
		}
	}
	check(reflect.TypeFor[S]())
}

//nolint:gochecknoglobals // one seed for the process: hashes of one search are compared
var hashSeed = maphash.MakeSeed()

func hash[S any](s *S) uint64 { return maphash.Bytes(hashSeed, bytesOf(s)) }

// packed appends a state and its number to a chunk. Most bytes of a state are 0, so runs of zeros are stored as counts.
func packed[S any](chunk []byte, s *S, number uint32) []byte {
	chunk = append(chunk, byte(number), byte(number>>8), byte(number>>16), byte(number>>24))
	all := bytesOf(s)
	for i := 0; i < len(all); {
		zeros := i
		for i < len(all) && all[i] == 0 && i-zeros < 255 {
			i++
		}
		begin := i
		for i < len(all) && i-begin < 255 && (all[i] != 0 || i+1 < len(all) && all[i+1] != 0) {
			i++
		}
		chunk = append(chunk, byte(begin-zeros), byte(i-begin))
		chunk = append(chunk, all[begin:i]...)
	}
	return chunk
}

// unpack reads the first state of a chunk and its number, and returns the rest.
func unpack[S any](s *S, chunk []byte) (number uint32, rest []byte) {
	number = uint32(chunk[0]) | uint32(chunk[1])<<8 | uint32(chunk[2])<<16 | uint32(chunk[3])<<24
	chunk = chunk[4:]
	all := bytesOf(s)
	clear(all)
	for i := 0; i < len(all); {
		i += int(chunk[0])
		n := int(chunk[1])
		copy(all[i:], chunk[2:2+n])
		i += n
		chunk = chunk[2+n:]
	}
	return number, chunk
}

// origin is how a state was first reached: from which state, by which event.
type origin struct {
	state uint32
	event uint16
}

// seen is the set of states that a search has reached, by their hashes, with the origin of each. Safe for concurrent
// use.
type seen struct {
	mu      sync.Mutex
	slots   []slot   // guarded by mu; open addressing, a power of two
	origins []origin // guarded by mu
}

type slot struct {
	hash   uint64
	number uint32 // 1 + its index in origins
}

func newSeen() *seen { return &seen{slots: make([]slot, 1<<12)} }

// add adds a state that is not there yet and returns its number.
func (s *seen) add(h uint64, from origin) (number uint32, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(h)
	if at.number != 0 {
		return 0, false
	}
	s.origins = append(s.origins, from)
	*at = slot{h, uint32(len(s.origins))}
	if len(s.origins)*4 > len(s.slots)*3 {
		s.grow()
	}
	return uint32(len(s.origins) - 1), true
}

// find returns the slot of a hash, or the free slot for it. Called with mu held.
func (s *seen) find(h uint64) *slot {
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if at := &s.slots[i]; at.number == 0 || at.hash == h {
			return at
		}
	}
}

// grow doubles the slots. Called with mu held.
func (s *seen) grow() {
	old := s.slots
	s.slots = make([]slot, 2*len(old))
	for _, one := range old {
		if one.number != 0 {
			*s.find(one.hash) = one
		}
	}
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.origins)
}

func (s *seen) origin(number uint32) origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origins[number]
}
