package backup_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/backup"
	"holdfast/session"
)

func headed(records []byte) backup.Header {
	return backup.Header{
		Cluster: "orders", Node: 2, Version: "v1", TakenAt: time.Unix(1_700_000_000, 5e6).UTC(), Index: 7, Term: 3,
		Confirmed: true, FeatureLevel: 1, Sessions: 4, Certificates: 5, Entries: 6, Ephemerals: 2,
		Bytes: uint64(len(records)), SHA256: sha256.Sum256(records), StateDigest: [16]byte{1, 2},
	}
}

// file returns a file with any records.
func file(t *testing.T, h backup.Header, records []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.WriteHeader(&b, h); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), records...)
}

func read(b []byte) (backup.Header, []byte, error) {
	r, err := backup.NewReader(bytes.NewReader(b))
	if err != nil {
		return backup.Header{}, nil, err
	}
	records, err := io.ReadAll(r)
	return r.Header, records, err
}

func TestFile(t *testing.T) {
	records := bytes.Repeat([]byte("record "), 50_000)
	want := headed(records)
	b := file(t, want, records)
	h, got, err := read(b)
	if err != nil || h != want || !bytes.Equal(got, records) {
		t.Errorf("read %+v, %d bytes, %v", h, len(got), err)
	}
	damaged := &backup.DamagedError{}
	small := file(t, headed([]byte("abc")), []byte("abc"))
	for n := range small {
		if _, _, err := read(small[:n]); !errors.As(err, &damaged) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for i := range small {
		small[i] ^= 0x10
		if _, _, err := read(small); !errors.As(err, &damaged) {
			t.Errorf("with another byte %d: %v", i, err)
		}
		small[i] ^= 0x10
	}
	if _, _, err := read(append(small, 'd')); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "follow") {
		t.Errorf("with one byte more: %v", err)
	}
}

// A reader of the records that stops before the end leaves the checksum to Close.
func TestCloseReadsTheRest(t *testing.T) {
	b := file(t, headed([]byte("abcdef")), []byte("abcdeF"))
	r, err := backup.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("Close = %v", err)
	}
}

func TestHeaderRefuses(t *testing.T) {
	for field, change := range map[string]func(*backup.Header){
		"header.cluster_id": func(h *backup.Header) { h.Cluster = "" },
		"header.node":       func(h *backup.Header) { h.Node = 255 },
		"header.bytes":      func(h *backup.Header) { h.Bytes = 0 },
	} {
		h := headed([]byte("abc"))
		change(&h)
		_, _, err := read(file(t, h, []byte("abc")))
		if named, ok := errors.AsType[*session.FieldError](err); !ok || named.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	m := backup.HeaderProto(headed([]byte("abc")))
	m.Sha256 = m.Sha256[1:]
	if _, err := backup.HeaderFrom(m); err == nil {
		t.Error("a short checksum was accepted")
	}
	if size := proto.Size(backup.HeaderProto(headed(nil))); size > backup.MaxHeader/4 {
		t.Errorf("a header takes %d bytes", size)
	}
}

// Backups of format 1 are read. Every other number is refused by name.
func TestBackupFormat(t *testing.T) {
	for _, format := range []uint32{0, 1, 2} {
		m := backup.HeaderProto(headed([]byte("abc")))
		m.Format = format
		want := ""
		if format != 1 {
			want = fmt.Sprintf("the backup has format %d, and this program reads format 1: use the release that made it",
				format)
		}
		switch _, err := backup.HeaderFrom(m); {
		case want == "" && err != nil, want != "" && (err == nil || err.Error() != want):
			t.Errorf("format %d: %v, want %q", format, err, want)
		}
	}
}
