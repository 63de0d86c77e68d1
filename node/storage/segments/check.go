package segments

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The format of a segment, as in raft-wal's package segment. A segment is a header, and then one batch for each append:
// frames with entries, in the last batch a frame with the index of the segment, and a commit frame with the CRC-32C of
// all bytes since the former commit frame. The first batch includes the header.
const (
	headerSize = 32 // magic, version, index of the first entry, number, codec; here the owner stands for the codec
	frameSize  = 8  // type, and the length of the payload or the checksum

	firstAt, numberAt, ownerAt = 8, 16, 24

	entryFrame, indexFrame, commitFrame = 1, 2, 3
)

// FileError names a file that keeps the log from being used.
type FileError struct {
	// File is the path; "" stands for the file with the list of segments. Problem is the predicate of a sentence about
	// the file.
	File, Problem string
}

func (e *FileError) Error() string { return e.File + " " + e.Problem }

// contents are the complete batches of a segment.
type contents struct {
	// end is the number of bytes of the batches, entries the number of their entries.
	end, entries int
	// index is where the index of the segment begins; 0 for a segment without one.
	index int
	// left says that bytes of another batch follow.
	left bool
}

// check returns a [FileError] for a segment that is missing, damaged or foreign. A torn last batch of the newest
// segment is no damage: a crash has interrupted its append. check returns what the newest segment has.
func (o Options) check(l *list) (newest contents, err error) {
	names, err := (&files{}).ListDir(o.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return contents{}, err
	}
	for _, name := range names {
		if number, ok := numberOf(name); ok && number >= l.NextSegmentID {
			return contents{}, &FileError{"", fmt.Sprintf("is an older copy: %s has segment %s, which it does not name",
				o.Folder, name)}
		}
	}
	last := uint64(0)
	for i, info := range l.Segments {
		if newest, err = o.read(info); errors.Is(err, fs.ErrNotExist) {
			err = nil
			if i < len(l.Segments)-1 || info.ID < l.Made {
				err = &FileError{o.path(info), "is missing, but the log has used it"}
			}
		}
		if err == nil {
			err = newest.suffice(o.path(info), info)
		}
		if err != nil {
			return contents{}, err
		}
		if newest.entries > 0 {
			last = cmp.Or(info.MaxIndex, info.BaseIndex+uint64(newest.entries)-1)
		}
	}
	if last < o.Least {
		return contents{}, &FileError{o.Folder, fmt.Sprintf("has lost entries: it ends with entry %d, and this node has "+
			"applied entry %d", last, o.Least)}
	}
	return newest, nil
}

func (o Options) path(info types.SegmentInfo) string {
	return filepath.Join(o.Folder, segment.FileName(info))
}

func (o Options) read(info types.SegmentInfo) (contents, error) {
	b, err := os.ReadFile(o.path(info))
	if err != nil {
		return contents{}, err
	}
	return o.scan(info, b)
}

// suffice returns an error unless a segment has what the list says of it. Of the newest segment the list says only where
// the log begins.
func (c contents) suffice(path string, info types.SegmentInfo) error {
	end := info.BaseIndex + uint64(c.entries) - 1
	complete := !info.SealTime.IsZero()
	switch {
	case complete && end < info.MaxIndex:
		return &FileError{path, fmt.Sprintf("is damaged or cut short: it ends with entry %d, and the log needs entry %d",
			end, info.MaxIndex)}
	case complete && (c.index == 0 || c.left):
		return &FileError{path, fmt.Sprintf("is damaged after byte %d: its index is missing", c.end)}
	case info.MinIndex > info.BaseIndex && end < info.MinIndex:
		return &FileError{path, fmt.Sprintf("has lost entries: it ends with entry %d, and the log begins with entry %d",
			end, info.MinIndex)}
	}
	return nil
}

// scan reads the batches of a segment up to the first one that is not complete.
func (o Options) scan(info types.SegmentInfo, b []byte) (contents, error) {
	var c contents
	entries, index, broken := 0, 0, len(b)
	for at, from := headerSize, 0; at+frameSize <= len(b); {
		kind, value := b[at], int(binary.LittleEndian.Uint32(b[at+4:]))
		switch {
		case kind == entryFrame || kind == indexFrame:
			if kind == entryFrame {
				entries++
			} else {
				index = at + frameSize
			}
			at += frameSize + (value+frameSize-1)/frameSize*frameSize
			continue
		case kind == commitFrame && checksum(b[from:at]) == uint32(value):
			at += frameSize
			from = at
			c = contents{end: at, entries: entries, index: index}
			continue
		}
		broken = at + frameSize
		break
	}
	rest := b[c.end:]
	c.left = len(bytes.Trim(rest, "\x00")) > 0
	switch field := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }; {
	case c.end > 0 && field(ownerAt) != o.Owner:
		return c, &FileError{o.path(info), fmt.Sprintf("belongs to the log of directory %x", field(ownerAt))}
	case c.end > 0 && (field(firstAt) != info.BaseIndex || field(numberAt) != info.ID):
		return c, &FileError{o.path(info), fmt.Sprintf("is a copy of another segment: it begins with entry %d",
			field(firstAt))}
	case c.left && (followed(rest) || begins(b, broken)):
		return c, &FileError{o.path(info), fmt.Sprintf("is damaged after byte %d", c.end)}
	}
	return c, nil
}

// followed reports whether a complete batch begins within b, behind another commit frame. Raft appends one batch after
// the other, so what is before the batch was complete once.
func followed(b []byte) bool {
	former := -1
	for at := 0; at+frameSize <= len(b); at += frameSize {
		if b[at] != commitFrame || b[at+1] != 0 || b[at+2] != 0 || b[at+3] != 0 {
			continue
		}
		if former >= 0 && checksum(b[former:at]) == binary.LittleEndian.Uint32(b[at+4:]) {
			return true
		}
		former = at + frameSize
	}
	return false
}

// begins reports whether a complete batch begins at a place in b, where the frame before may have been a commit frame.
func begins(b []byte, from int) bool {
	for at := from; at+frameSize <= len(b); {
		kind, value := b[at], int(binary.LittleEndian.Uint32(b[at+4:]))
		switch kind {
		case entryFrame, indexFrame:
			at += frameSize + (value+frameSize-1)/frameSize*frameSize
		case commitFrame:
			return at > from && checksum(b[from:at]) == uint32(value)
		default:
			return false
		}
	}
	return false
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// numberOf returns the number of a segment from the name of its file.
func numberOf(name string) (number uint64, ok bool) {
	var first uint64
	n, err := fmt.Sscanf(name, "%020d-%016x.wal", &first, &number)
	return number, err == nil && n == 2
}

// mend prepares the newest segment for appends. It removes the rest of a torn batch, which raft-wal would leave in the
// file. It lists a segment as complete that has its index: raft-wal does that after the append that completes it, and
// after a crash in between refuses all appends.
//
// It syncs the segment and its name: the process before may have ended between a write and its sync.
func (o Options) mend(l *list, newest contents) error {
	last := len(l.Segments) - 1
	if last < 0 || !l.Segments[last].SealTime.IsZero() {
		return nil
	}
	info := l.Segments[last]
	err := mendFile(o.path(info), newest)
	if err == nil {
		err = syncDir(o.Folder)
	}
	if err != nil || newest.index == 0 {
		return err
	}
	next := types.PersistentState{NextSegmentID: l.NextSegmentID + 1, Segments: slices.Clone(l.Segments)}
	next.Segments[last].SealTime, next.Segments[last].IndexStart = time.Now(), uint64(newest.index)
	next.Segments[last].MaxIndex = info.BaseIndex + uint64(newest.entries) - 1
	first := next.Segments[last].MaxIndex + 1
	next.Segments = append(next.Segments, types.SegmentInfo{
		ID: l.NextSegmentID, BaseIndex: first, MinIndex: first, Codec: info.Codec, CreateTime: time.Now(),
		SizeLimit: info.SizeLimit,
	})
	return l.write(next, l.Made)
}

// mendFile removes what follows the complete batches of a segment, and syncs the rest.
func mendFile(path string, has contents) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && has.left {
		err = f.Truncate(int64(has.end))
	}
	if err == nil {
		err = f.Sync()
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}
