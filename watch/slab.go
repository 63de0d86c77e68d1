package watch

// slabChunk is the number of items of a chunk.
const slabChunk = 512

// slab holds items that never move, so growing copies nothing. The first item has number 1.
type slab[T any] struct {
	chunks []*[slabChunk]T
	used   uint32
	spare  []uint32
}

func (s *slab[T]) at(n uint32) *T { return &s.chunks[(n-1)/slabChunk][(n-1)%slabChunk] }

// alloc returns the number of a zero item.
func (s *slab[T]) alloc() uint32 {
	if last := len(s.spare) - 1; last >= 0 {
		n := s.spare[last]
		s.spare = s.spare[:last]
		return n
	}
	if int(s.used) == len(s.chunks)*slabChunk {
		s.chunks = append(s.chunks, new([slabChunk]T))
	}
	s.used++
	return s.used
}

// free releases an item. A slab without items releases its memory.
func (s *slab[T]) free(n uint32) {
	var zero T
	*s.at(n) = zero
	s.spare = append(s.spare, n)
	if len(s.spare) == int(s.used) {
		*s = slab[T]{}
	}
}
