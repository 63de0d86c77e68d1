package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// listed is what "go list" says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// TestBugsCompile shows that each patch applies to today's code, changes it, and leaves code of the right types. Only the
// patched package is checked, against the compiled code of what it imports: no test is built.
func TestBugsCompile(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	packages := listPackages(t, root)
	c := checker{packages: packages, files: token.NewFileSet()}
	c.imports = importer.ForCompiler(c.files, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(packages[name].Export)
	})
	for _, b := range bugs {
		if err := c.check(root, &b); err != nil {
			t.Errorf("bugs/%s.patch: %v", b.name, err)
		}
	}
}

// checker checks types. What packages import is read once.
type checker struct {
	packages map[string]listed // by import path
	files    *token.FileSet
	imports  types.Importer
}

// check type-checks the packages that a bug changes.
func (c *checker) check(root string, b *bug) error {
	changed := make(map[string]string) // by file
	for _, change := range b.changes {
		file := filepath.Join(root, filepath.FromSlash(change.file))
		before, after, err := change.read(file)
		if err != nil {
			return err
		}
		if after == before {
			return errors.New("changes nothing")
		}
		changed[file] = after
	}
	for _, change := range b.changes {
		if err := c.checkPackage(c.packages[path.Join("holdfast", path.Dir(change.file))], changed); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkPackage(of listed, changed map[string]string) error {
	var parsed []*ast.File
	for _, name := range of.GoFiles {
		file := filepath.Join(of.Dir, name)
		var source any
		if text, ok := changed[file]; ok {
			source = text
		}
		f, err := parser.ParseFile(c.files, file, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	if len(parsed) == 0 {
		return errors.New("changes no package of this module")
	}
	_, err := (&types.Config{Importer: c.imports}).Check(of.ImportPath, c.files, parsed, nil)
	return err
}

// listPackages compiles the module, as far as that has not been done, and returns its packages and all that they import.
func listPackages(t *testing.T, root string) map[string]listed {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	packages := make(map[string]listed)
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var p listed
		if err := in.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	return packages
}
