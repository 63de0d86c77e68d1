package raft_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// distrusted returns the methods of *raft.Raft that do not report what their names say, each with the reason.
func distrusted() map[string]string {
	return map[string]string{
		"VerifyLeader": "asks observers, credits old answers and is tied to no term: wait for a good round (R3, R4)",
		"AppliedIndex": "is what was handed to the state: ask the state",
		"LeaderCh":     "keeps only the newest change: use NotifyCh and the term's own rounds",
		"Barrier":      "tells neither term nor index: propose a command (R5)",
	}
}

// Production code calls no method that must not be trusted. A planted call shows that the check finds such calls.
func TestProductionAsksRaftNothingThatIsNotSo(t *testing.T) {
	packages := listed(t)
	checked, asked := 0, 0
	for _, p := range packages {
		if !strings.HasPrefix(p.ImportPath, "holdfast/") || strings.HasPrefix(p.ImportPath, "holdfast/test/") {
			continue
		}
		checked++
		for _, call := range calls(t, packages, p.files()...) {
			asked++
			if why, bad := distrusted()[call.method]; bad {
				t.Errorf("%v: raft.Raft.%s %s", call.at, call.method, why)
			}
		}
	}
	if checked < 8 || asked < 8 {
		t.Errorf("only %d packages were looked at, with %d calls of Raft", checked, asked)
	}
	planted := filepath.Join(t.TempDir(), "planted.go")
	source := "package planted\n\nimport \"github.com/hashicorp/raft\"\n\ntype node struct{ *raft.Raft }\n\nfunc " +
		"leads(n *node) bool { return n.VerifyLeader().Error() == nil }\n"
	if err := os.WriteFile(planted, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := calls(t, packages, planted); len(got) != 1 || got[0].method != "VerifyLeader" {
		t.Errorf("the check reports the planted call as %v", got)
	}
}

// goPackage is an answer of go list about a package.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

func (p goPackage) files() []string {
	files := make([]string, len(p.GoFiles))
	for i, name := range p.GoFiles {
		files[i] = filepath.Join(p.Dir, name)
	}
	return files
}

// listed returns the packages of the programs and of the SDK with their imports, by path, and builds them.
func listed(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles",
		"holdfast/cmd/...", "holdfast/client")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]goPackage{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// call is one call of a method of *raft.Raft.
type call struct {
	method string
	at     token.Position
}

// calls returns the calls of methods of *raft.Raft in the files of one package, also of an embedded *raft.Raft.
func calls(t *testing.T, packages map[string]goPackage, files ...string) (found []call) {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range files {
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if packages[path].Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(packages[path].Export)
	})}
	if _, err := conf.Check("checked", fset, parsed, info); err != nil {
		t.Fatal(err)
	}
	for expr, selection := range info.Selections {
		f, ok := selection.Obj().(*types.Func)
		if !ok || f.Signature().Recv() == nil {
			continue
		}
		if f.Signature().Recv().Type().String() == "*github.com/hashicorp/raft.Raft" {
			found = append(found, call{f.Name(), fset.Position(expr.Pos())})
		}
	}
	return found
}

// Versions are pinned: go-metrics above v0.5.4 breaks raft-boltdb v2.3.1, and raft v1.8.0 does not build with it. What
// node/storage/segments adds to raft-wal depends on the format of its files.
func TestVersionsArePinned(t *testing.T) {
	want := map[string]string{
		"github.com/hashicorp/raft":           "v1.7.3",
		"github.com/hashicorp/go-metrics":     "v0.5.4",
		"github.com/hashicorp/raft-boltdb/v2": "v2.3.1",
		"github.com/hashicorp/raft-wal":       "v0.4.2",
	}
	for module, version := range want {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Replace}}",
			module).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != version+" <nil>" {
			t.Errorf("%s is %s (%v), want %s and no replacement: read the notes on its traps first", module, got, err,
				version)
		}
	}
}

// The table in README.md names existing tests.
func TestTheTableNamesTests(t *testing.T) {
	table, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	fset := token.NewFileSet()
	for _, dir := range []string{".", "../../fsm", "../../leader", "../../node", "../../transport"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if test, ok := d.(*ast.FuncDecl); ok {
					there[test.Name.Name] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(table), -1)
	if len(named) < 20 {
		t.Errorf("README.md names only %d tests", len(named))
	}
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("README.md names %s: no such test", name[1])
		}
	}
}
