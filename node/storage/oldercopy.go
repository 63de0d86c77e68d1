package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MarkOlderCopy records on disk that the directory is an older copy of itself (J6 rolled-back directories). The next
// start sets the files aside and begins as a new member.
func (d *Dir) MarkOlderCopy() error {
	return d.update(func(i *Identity) { i.Old = true })
}

// OlderCopy returns the folder of an older copy of the directory that a start has set aside; "" for none.
func (d *Dir) OlderCopy() string {
	if path := filepath.Join(d.path, OlderCopyFolder); !isMissing(path) {
		return path
	}
	return ""
}

// setAside moves the files of an older copy into a folder. It moves the identity file last, so that the next start
// continues an interrupted move. The folder holds one copy: setAside removes a former copy.
func setAside(path string) error {
	to := filepath.Join(path, OlderCopyFolder)
	if !isMissing(filepath.Join(to, IdentityFile)) {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{PositionsFile, SnapshotFolder, LogFolder, StableFile, IdentityFile} {
		err := os.Rename(filepath.Join(path, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err = errors.Join(syncDir(to), syncDir(path)); err != nil { // after a power cut each file is in one place
			return err
		}
	}
	return nil
}
