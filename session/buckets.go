package session

// bucketHeap is a binary heap of bucket numbers, smallest first. It stays small: at most the largest timeout divided by
// the interval.
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
		smallest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s[child] < s[smallest] {
				smallest = child
			}
		}
		if smallest == i {
			return first
		}
		s[i], s[smallest] = s[smallest], s[i]
		i = smallest
	}
}
