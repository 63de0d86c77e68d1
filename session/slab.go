package session

// none is no place in a slab.
const none uint32 = 0

// slabChunk is the number of items of a chunk: large enough that chunks cost nothing, small enough that the last one of
// each of some dozen queues does not either.
const slabChunk = 256

// slab holds items that never move, so that growing copies nothing and pointers to them stay good. Places begin at 1.
type slab[V any] struct {
	chunks []*[slabChunk]Item[V]
	used   uint32
	// spare is the first of the freed places, linked through next.
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

// free takes a place back; the item in it is zero.
func (s *slab[V]) free(n uint32) {
	s.at(n).next = s.spare
	s.spare = n
}

// bucketHeap is a binary heap of bucket numbers, the smallest first. There are few: at most the largest timeout divided
// by the interval.
type bucketHeap []int64

func (h *bucketHeap) push(v int64) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent] <= s[i] {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *bucketHeap) pop() int64 {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	s = *h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s[child] < s[least] {
				least = child
			}
		}
		if least == i {
			return first
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
