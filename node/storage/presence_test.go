package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// While this process itself replaces a file, a look finds nothing wrong; a replacement does not write to where somebody
// else's is.
func TestPresenceOfWhatIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, IdentityFile)
	put := func() error {
		return errors.Join(os.WriteFile(file+".new", nil, 0o600), os.Rename(file+".new", file))
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	p := &presence{}
	defer func() { _ = p.close() }()
	if err := p.watch(dir, file); err != nil {
		t.Fatal(err)
	}
	during := errors.New("not looked")
	if err := p.replace(file, func() error {
		err := put()
		during = p.check()
		return err
	}); err != nil || during != nil {
		t.Errorf("replace: %v; a look meanwhile: %v", err, during)
	}
	if err := p.check(); err != nil {
		t.Errorf("after it: %v", err)
	}
	if err := put(); err != nil { // somebody else
		t.Fatal(err)
	}
	lost := &lostError{}
	if err := p.check(); !errors.As(err, &lost) || lost.path != file || lost.what != "replaced" {
		t.Errorf("replaced by somebody else: %v", err)
	}
	if err := p.replace(file, func() error { t.Error("it writes"); return nil }); !errors.As(err, &lost) {
		t.Errorf("replace of somebody else's: %v", err)
	}
	log := filepath.Join(dir, StableFile)
	if err := errors.Join(os.WriteFile(log, make([]byte, 10), 0o600), p.watch(log)); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{10, 30, 40} { // it grows
		if err := errors.Join(os.Truncate(log, size), p.all[2].check()); err != nil {
			t.Errorf("a log of %d bytes: %v", size, err)
		}
	}
	for _, size := range []int64{9, 39} {
		if err := os.Truncate(log, size); err != nil {
			t.Fatal(err)
		}
		if err := p.all[2].check(); !errors.As(err, &lost) || lost.what != "cut off" {
			t.Errorf("a log that was cut off to %d bytes: %v", size, err)
		}
	}
}

// A file that this process releases and deletes was not removed by another, whenever a check runs.
func TestAFileThatIsReleased(t *testing.T) {
	p := &presence{}
	defer func() { _ = p.close() }()
	file := filepath.Join(t.TempDir(), "file")
	ended := make(chan error, 1)
	go func() {
		var err error
		for range 3000 {
			var release func()
			if err = os.WriteFile(file, nil, 0o600); err == nil {
				release, err = p.hold(file)
			}
			if err != nil {
				break
			}
			release()
			if err = os.Remove(file); err != nil {
				break
			}
		}
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if err := p.check(); err != nil {
				t.Errorf("a check: %v", err)
			}
		}
	}
}
