package gate

import "sync"

// maxShares bounds the addresses, and the principals, that a node keeps a budget of its own for.
const maxShares = 10_000

// keyedBuckets are budgets of the same size, one for each address or principal that has come lately. There are at most
// so many: a new one takes the place of the one that has not come for longest, if that one's budget is full again, so
// that nothing is forgotten. When it is not, the new one shares a single budget with all others that find no place. So
// a flood of names costs no more memory, and those who were there before keep theirs; it is not kept small itself, for
// each name that finds a place begins with a full budget. Safe for concurrent use.
type keyedBuckets[K comparable] struct {
	rate, most int
	rest       bucket

	mu sync.Mutex
	of map[K]*share[K] // guarded by mu
	// recent is a ring through all of them and itself, which is none: next is the one that came last, last the one that
	// has not come for longest. guarded by mu
	recent share[K]
}

type share[K comparable] struct {
	key        K
	bucket     bucket
	next, last *share[K]
}

// newKeyedBuckets returns budgets of rate tokens a second, nil for 0: no limit.
func newKeyedBuckets[K comparable](rate, most int) *keyedBuckets[K] {
	if rate <= 0 {
		return nil
	}
	s := &keyedBuckets[K]{rate: rate, most: most, of: map[K]*share[K]{}}
	s.recent.next, s.recent.last = &s.recent, &s.recent
	s.rest.limit(rate)
	return s
}

// bucket returns the budget of key.
func (s *keyedBuckets[K]) bucket(now int64, key K) *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of[key]
	switch {
	case found != nil:
		found.leave()
	case len(s.of) < s.most:
		found = s.add(key)
	default:
		oldest := s.recent.last
		if !oldest.bucket.idle(now) {
			return &s.rest
		}
		oldest.leave()
		delete(s.of, oldest.key)
		found = s.add(key)
	}
	found.follow(&s.recent)
	return &found.bucket
}

// add is called with mu held.
func (s *keyedBuckets[K]) add(key K) *share[K] {
	added := &share[K]{key: key}
	added.bucket.limit(s.rate)
	s.of[key] = added
	return added
}

// leave takes e out of its ring.
func (e *share[K]) leave() { e.last.next, e.next.last = e.next, e.last }

// follow puts e behind other.
func (e *share[K]) follow(other *share[K]) {
	e.last, e.next = other, other.next
	e.last.next, e.next.last = e, e
}

// len returns how many have a budget of their own.
func (s *keyedBuckets[K]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}
