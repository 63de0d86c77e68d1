package watch

import (
	"math/rand/v2"
	"slices"

	"holdfast/tree"
)

// filterBits is the size of a [filter]: 2 KiB give a chunk of 256 changes one false hit in a thousand look-ups. Each
// key sets filterHashes bits.
const (
	filterBits   = 1 << 14
	filterHashes = 3
)

// filter is a Bloom filter of the paths that the changes of a chunk concern. A resumption skips chunks without a change
// for its watches. Without filters, each client of a lost node would scan all changes since its last stamp (V4 resumed
// watches).
type filter [filterBits / 64]uint64

// bit returns the word and the mask of one of the bits of a key.
func (f *filter) bit(key uint64, n int) (word *uint64, mask uint64) {
	at := key >> (21 * n) % filterBits
	return &f[at/64], 1 << (at % 64)
}

func (f *filter) add(key uint64) {
	for n := range filterHashes {
		word, mask := f.bit(key, n)
		*word |= mask
	}
}

func (f *filter) has(key uint64) bool {
	for n := range filterHashes {
		if word, mask := f.bit(key, n); *word&mask == 0 {
			return false
		}
	}
	return true
}

// hasAny reports whether the filter has one of the keys.
func (f *filter) hasAny(keys []uint64) bool {
	return slices.ContainsFunc(keys, f.has)
}

// pathKeys computes the keys of filters from paths. The random seed keeps clients from choosing paths with equal keys.
type pathKeys uint64

func newPathKeys() pathKeys { return pathKeys(rand.Uint64()) }

// below makes the key for everything below a path differ from the key for the path itself.
const below = 0x9e3779b97f4a7c15

// ofChange adds the keys of a change: one for the changed path, one for its parent unless only data has changed, and
// one for everything below each ancestor.
func (k pathKeys) ofChange(c *tree.Change, f *filter) {
	hash, parent := k.root(), k.root()
	for i := 1; i < len(c.Path); i++ {
		if c.Path[i] == '/' {
			f.add(mixed(hash ^ below))
			parent = hash
		}
		hash = hashed(hash, c.Path[i])
	}
	f.add(mixed(k.root() ^ below))
	f.add(mixed(hash))
	if c.Kind != tree.DataSet {
		f.add(mixed(parent))
	}
}

// ofWatch appends the keys of a lasting watch. Every change that the watch matches has at least one of these keys.
func (k pathKeys) ofWatch(keys []uint64, path string, kinds Kinds) []uint64 {
	hash := k.root()
	for i := 1; i < len(path); i++ {
		hash = hashed(hash, path[i])
	}
	keys = append(keys, mixed(hash))
	if kinds&recursive != 0 {
		keys = append(keys, mixed(hash^below))
	}
	return keys
}

func (k pathKeys) root() uint64 { return uint64(k) }

// hashed is a step of FNV-1a. Hashing a path byte by byte also gives the hash of each ancestor.
func hashed(hash uint64, b byte) uint64 { return (hash ^ uint64(b)) * 0x100000001b3 }

// mixed spreads the entropy of a hash over all bits.
func mixed(hash uint64) uint64 {
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}
