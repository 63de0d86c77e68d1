package session

// none is the place of no item in a slab.
const none uint32 = 0

// slabChunk is the number of items of a chunk. It is large enough that the overhead of a chunk does not matter, and
// small enough that the unused part of the last chunk does not matter either, in each of some dozens of queues.
const slabChunk = 256

// slab holds items that never move: growing copies nothing, and pointers to items stay valid. Places begin at 1.
type slab[V any] struct {
	chunks []*[slabChunk]Item[V]
	used   uint32
	// spare is the first of the freed places, which are linked through next.
	spare uint32
}

func (s *slab[V]) at(n uint32) *Item[V] { return &s.chunks[(n-1)/slabChunk][(n-1)%slabChunk] }

func (s *slab[V]) alloc() uint32 {
	if n := s.spare; n != none {
		s.spare = s.at(n).next
		return n
	}
	if int(s.used) == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, new([slabChunk]Item[V]))
	}
	s.used++
	return s.used
}

// chunk returns the used items of a chunk, including freed places, whose id is 0; false after the last chunk.
func (s *slab[V]) chunk(i int) ([]Item[V], bool) {
	if i >= len(s.chunks) {
		return nil, false
	}
	return s.chunks[i][:min(slabChunk, int(s.used)-i*slabChunk)], true
}

// free frees a place. The caller has zeroed its item.
func (s *slab[V]) free(n uint32) {
	s.at(n).next = s.spare
	s.spare = n
}
