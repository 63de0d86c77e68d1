package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// data_dir may be a link. The error for a link that leads nowhere says so.
func TestALinkAsDataDirectory(t *testing.T) {
	dir := t.TempDir()
	link, to := filepath.Join(dir, "data"), filepath.Join(dir, "disk", "data")
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(link, "below")} {
		refused(
			t, link, link+" is a link to "+
				to+", which does not exist: mount or make "+to+", or put a directory in place of the link",
		)
		if _, err := OpenDir(path, "holdfast", 1, time.Now()); err == nil ||
			!strings.Contains(err.Error(), link+" is a link to") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpenDir(t, link))
}
