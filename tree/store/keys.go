package store

import (
	"encoding/binary"
	"strings"

	"holdfast/tree"
)

// rootKey is the key of the root.
const rootKey = "\x00" + tree.Root

// keyOf returns the key of an entry: a byte with the depth, then the path. So parents come before their children, and
// siblings are neighbours in the order of their names (D1 tree layout).
func keyOf(path string) string {
	var b strings.Builder
	b.Grow(1 + len(path))
	b.WriteByte(byte(tree.Depth(path)))
	b.WriteString(path)
	return b.String()
}

// pathOf returns the path of a key.
func pathOf(key string) string { return key[1:] }

// belowKey returns the common prefix of the keys of all entries that are the given number of levels below a path;
// levels is at least 1.
func belowKey(path string, levels int) string {
	if path == tree.Root {
		path = ""
	}
	return string([]byte{byte(tree.Depth(path) + levels)}) + path + "/"
}

// numbered returns a key of an index: a number, then the key of an entry. Such keys sort by the numbers.
func numbered(n uint64, key string) string {
	var b strings.Builder
	b.Grow(8 + len(key))
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], n)
	b.Write(number[:])
	b.WriteString(key)
	return b.String()
}

// numberedParts splits a key of numbered.
func numberedParts(indexed string) (n uint64, key string) {
	return binary.BigEndian.Uint64([]byte(indexed[:8])), indexed[8:]
}
