package ratelimit

import "sync"

// maxShares bounds the number of addresses, and of clients, with rate limits of their own.
const maxShares = 10_000

// keyedBuckets are rate limits of the same size, one for each recent address or client, up to a bound. At the bound, a
// new key replaces the least recently used one if that one's bucket is full again, so that nothing is forgotten.
// Otherwise the new key shares a single bucket with all other such keys. So a flood of names costs no more memory, and
// earlier keys keep their buckets. The flood itself is not limited much: each name with its own bucket begins with a
// full one. Safe for concurrent use.
type keyedBuckets[K comparable] struct {
	rate, limit int
	rest        bucket

	mu sync.Mutex
	of map[K]*share[K] // guarded by mu
	// recent is a ring through all shares, with itself as the end mark: next is the most recently used share, last the
	// least recently used. guarded by mu
	recent share[K]
}

type share[K comparable] struct {
	key        K
	bucket     bucket
	next, last *share[K]
}

// newKeyedBuckets returns buckets of rate tokens per second, for at most limit keys; nil for rate 0, which is no limit.
func newKeyedBuckets[K comparable](rate, limit int) *keyedBuckets[K] {
	if rate <= 0 {
		return nil
	}
	s := &keyedBuckets[K]{rate: rate, limit: limit, of: map[K]*share[K]{}}
	s.recent.next, s.recent.last = &s.recent, &s.recent
	s.rest.limit(rate)
	return s
}

// bucket returns the bucket of key.
func (s *keyedBuckets[K]) bucket(now int64, key K) *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of[key]
	switch {
	case found != nil:
		found.unlink()
	case len(s.of) < s.limit:
		found = s.add(key)
	default:
		oldest := s.recent.last
		if !oldest.bucket.idle(now) {
			return &s.rest
		}
		oldest.unlink()
		delete(s.of, oldest.key)
		found = s.add(key)
	}
	found.follow(&s.recent)
	return &found.bucket
}

// add adds the bucket of key. Called with mu held.
func (s *keyedBuckets[K]) add(key K) *share[K] {
	added := &share[K]{key: key}
	added.bucket.limit(s.rate)
	s.of[key] = added
	return added
}

// unlink removes e from its ring.
func (e *share[K]) unlink() { e.last.next, e.next.last = e.next, e.last }

// follow puts e behind other.
func (e *share[K]) follow(other *share[K]) {
	e.last, e.next = other, other.next
	e.last.next, e.next.last = e, e
}

// len returns the number of keys with rate limits of their own.
func (s *keyedBuckets[K]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}
