// Package boltfile checks the pages of a bbolt file before bbolt opens it. At a damaged page bbolt panics, also in
// goroutines of its own, where no caller can recover: the process would end without naming the file.
package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// The format of a file, as in go.etcd.io/bbolt/internal/common. Numbers are little-endian on all our platforms.
const (
	magic   = 0xED0CDAED
	version = 2

	pageHeader  = 16 // id, flags, count, overflow
	elementSize = 16 // of a branch: pos, ksize, pgid; of a leaf: flags, pos, ksize, vsize
	metaSize    = 64
	bucketSize  = 16 // root, sequence

	branchPage, leafPage = 0x01, 0x02
	isBucket             = 0x01 // flag of a leaf's element

	minPage, maxPage = 1 << 10, 16 << 20 // sizes that bbolt looks for
)

// PageError names the damaged page of a file.
type PageError struct {
	Page uint64
	Why  string
}

func (e *PageError) Error() string { return fmt.Sprintf("page %d %s", e.Page, e.Why) }

// Check returns a [PageError] for the first page at which bbolt would panic. It returns nil for a missing file, and for
// a file that bbolt itself refuses: without a complete meta page, or with a meta page whose tree ends after the file.
func Check(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	m, ok := newestMeta(f)
	if !ok {
		return nil
	}
	c := &check{file: f, meta: m, seen: map[uint64]bool{}}
	return c.bucket(m.root)
}

// meta is the content of a meta page.
type meta struct {
	pageSize uint32
	// root is the root page of the outermost bucket, end the first page that has never been used.
	root, end, tx uint64
}

// newestMeta returns the meta page that bbolt would use; false if there is none.
func newestMeta(f io.ReaderAt) (newest meta, ok bool) {
	consider := func(at int64) {
		if m, valid := readMeta(f, at); valid && (!ok || m.tx > newest.tx) {
			newest, ok = m, true
		}
	}
	consider(0)
	if ok {
		consider(int64(newest.pageSize))
		return newest, ok
	}
	for size := int64(minPage); size <= maxPage && !ok; size *= 2 {
		consider(size)
	}
	return newest, ok
}

func readMeta(f io.ReaderAt, at int64) (meta, bool) {
	var b [metaSize]byte
	if _, err := f.ReadAt(b[:], at+pageHeader); err != nil {
		return meta{}, false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8]) // never fails
	n := binary.LittleEndian
	m := meta{pageSize: n.Uint32(b[8:]), root: n.Uint64(b[16:]), end: n.Uint64(b[40:]), tx: n.Uint64(b[48:])}
	return m, n.Uint32(b[:]) == magic && n.Uint32(b[4:]) == version && n.Uint64(b[56:]) == sum.Sum64() &&
		m.pageSize >= minPage && m.pageSize <= maxPage
}

// check is one walk over the pages of a file.
type check struct {
	file io.ReaderAt
	meta meta
	// seen are the visited pages, including overflow pages.
	seen map[uint64]bool
}

// bucket checks all pages of the bucket with the given root page, and of the buckets in it.
func (c *check) bucket(root uint64) error {
	_, err := c.page(root, nil, nil)
	return err
}

// page checks a page and all pages below. The keys must be at least minimum and less than below; nil means no bound.
// It returns the largest key.
func (c *check) page(id uint64, minimum, below []byte) (largest []byte, err error) {
	p, err := c.read(id)
	if err != nil {
		return nil, err
	}
	for i := range p.elements {
		e := &p.elements[i]
		switch {
		case i == 0 && minimum != nil && bytes.Compare(e.key, minimum) < 0, i > 0 && bytes.Compare(e.key, largest) <= 0,
			below != nil && bytes.Compare(e.key, below) >= 0:
			return nil, &PageError{id, fmt.Sprintf("has keys that are out of order, at element %d", i)}
		case !p.branch:
			if largest = e.key; e.flags&isBucket != 0 {
				err = c.nested(id, e.value)
			}
		default:
			end := below
			if i+1 < len(p.elements) {
				end = p.elements[i+1].key
			}
			var last []byte
			if last, err = c.page(e.child, e.key, end); last != nil {
				largest = last
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return largest, nil
}

// nested checks a bucket that is the value of an element of a page.
func (c *check) nested(id uint64, value []byte) error {
	if len(value) < bucketSize {
		return &PageError{id, fmt.Sprintf("has a bucket of %d bytes", len(value))}
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return c.bucket(root)
	}
	p, err := parse(id, value[bucketSize:]) // the bucket's only page is in the value
	if err == nil && p.branch {
		err = &PageError{id, "has a bucket with a branch in its value"}
	}
	if err != nil {
		return err
	}
	var largest []byte
	for i := range p.elements {
		if e := &p.elements[i]; i > 0 && bytes.Compare(e.key, largest) <= 0 {
			return &PageError{id, "has a bucket whose keys are out of order"}
		}
		largest = p.elements[i].key
	}
	return nil
}

// read reads a page that no other part of the tree uses.
func (c *check) read(id uint64) (*page, error) {
	if id < 2 || id >= c.meta.end {
		return nil, &PageError{id, fmt.Sprintf("is not among the pages in use, 2 to %d", c.meta.end-1)}
	}
	size := int64(c.meta.pageSize)
	at := int64(id) * size //nolint:gosec // below end, which the file has
	var head [pageHeader]byte
	if _, err := c.file.ReadAt(head[:], at); err != nil {
		return nil, unread(id, err)
	}
	said, over := binary.LittleEndian.Uint64(head[:]), uint64(binary.LittleEndian.Uint32(head[12:]))
	switch {
	case said != id:
		return nil, &PageError{id, fmt.Sprintf("says that it is page %d", said)}
	case id+over >= c.meta.end:
		return nil, &PageError{id, fmt.Sprintf("goes on over %d pages, behind the last one in use", over)}
	}
	for one := id; one <= id+over; one++ {
		if c.seen[one] {
			return nil, &PageError{one, "is at two places of the tree"}
		}
		c.seen[one] = true
	}
	b := make([]byte, size*int64(over+1)) //nolint:gosec // below end, which the file has
	if _, err := c.file.ReadAt(b, at); err != nil {
		return nil, unread(id, err)
	}
	return parse(id, b)
}

// unread returns the error for an unreadable page: the file is too short, or reading failed.
func unread(id uint64, err error) error {
	if errors.Is(err, io.EOF) {
		return &PageError{id, "is behind the end of the file"}
	}
	return err
}

// page is a page of a tree.
type page struct {
	branch   bool
	elements []element
}

// element is a child of a branch, or a value of a leaf.
type element struct {
	key, value []byte
	child      uint64
	flags      uint32
}

// parse reads the elements of a page, which must all be in b.
func parse(id uint64, b []byte) (*page, error) {
	if len(b) < pageHeader {
		return nil, &PageError{id, "is too short"}
	}
	n := binary.LittleEndian
	flags, count := n.Uint16(b[8:]), int(n.Uint16(b[10:]))
	p := &page{branch: flags == branchPage}
	switch {
	case flags != branchPage && flags != leafPage:
		return nil, &PageError{id, fmt.Sprintf("is of no known kind (flags %#x)", flags)}
	case p.branch && count == 0:
		return nil, &PageError{id, "is a branch without children"}
	case pageHeader+count*elementSize > len(b):
		return nil, &PageError{id, fmt.Sprintf("says that it has %d elements", count)}
	}
	for i := range count {
		at := pageHeader + i*elementSize
		e := b[at:]
		var one element
		var pos, keySize, valueSize uint64
		if p.branch {
			pos, keySize = uint64(n.Uint32(e)), uint64(n.Uint32(e[4:]))
			one.child = n.Uint64(e[8:])
		} else {
			one.flags = n.Uint32(e)
			pos, keySize, valueSize = uint64(n.Uint32(e[4:])), uint64(n.Uint32(e[8:])), uint64(n.Uint32(e[12:]))
		}
		if pos+keySize+valueSize > uint64(len(e)) {
			return nil, &PageError{id, fmt.Sprintf("has an element that ends behind it, %d", i)}
		}
		one.key, one.value = e[pos:pos+keySize], e[pos+keySize:pos+keySize+valueSize]
		p.elements = append(p.elements, one)
	}
	return p, nil
}
