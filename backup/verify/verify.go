// Package verify reads backups to their ends: every checksum, every record, and what the records say of each other.
package verify

import (
	"fmt"
	"io"
	"os"

	"holdfast/backup"
	"holdfast/fsm"
)

// Report is what a backup holds.
type Report struct {
	backup.Header
	fsm.Contents
	// Size is the size of the file in bytes.
	Size int64
}

// File reads the backup in a file. Its error says what is wrong with it.
func File(path string) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close() //nolint:errcheck // a file that was only read
	info, err := f.Stat()
	if err != nil {
		return Report{}, err
	}
	report, err := Backup(f)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	report.Size = info.Size()
	return report, nil
}

// Backup reads a backup to its end.
func Backup(from io.Reader) (Report, error) {
	r, err := backup.NewReader(from)
	if err != nil {
		return Report{}, err
	}
	contents, err := fsm.CheckBackup(r)
	if whole := r.Close(); whole != nil { // it says more: what is wrong with a record may follow from it
		return Report{}, whole
	}
	if err != nil {
		return Report{}, err
	}
	report := Report{Header: r.Header, Contents: contents}
	return report, report.fits()
}

// fits compares the header with the records.
func (r *Report) fits() error {
	h, c := r.Header, r.Contents
	for _, one := range []struct {
		field      string
		says, have uint64
	}{
		{"index", h.Index, c.Index},
		{"feature_level", uint64(h.FeatureLevel), uint64(c.Level)},
		{"sessions", h.Sessions, c.Sessions},
		{"certificates", h.Certificates, c.Certificates},
		{"tree_entries", h.Entries, c.Entries},
		{"tree_ephemerals", h.Ephemerals, c.Ephemerals},
	} {
		if one.says != one.have {
			return fmt.Errorf("header.%s is %d, and the records have %d", one.field, one.says, one.have)
		}
	}
	if h.StateDigest != c.Digest {
		return fmt.Errorf("header.state_digest is %x, and the records have %x", h.StateDigest, c.Digest)
	}
	if h.Term < c.Term {
		return fmt.Errorf("header.term is %d, and the records have %d", h.Term, c.Term)
	}
	return nil
}
