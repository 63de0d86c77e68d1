// Package house checks that the program's own code keeps to ARCHITECTURE.md: small types, and an SDK without a server.
package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	// maxFields and maxMethods bound a type with methods. To understand one method, a reader keeps all fields in mind;
	// to understand one field, all methods.
	maxFields, maxMethods = 16, 40
)

// size is the size of a type.
type size struct{ fields, methods int }

// No type with methods has more than 16 fields or 40 methods. There are no exemptions.
func TestTypesAreSmall(t *testing.T) {
	found := sizes(t)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if is := found[name]; is.methods > 0 && (is.fields > maxFields || is.methods > maxMethods) {
			t.Errorf("%s has %d fields and %d methods, want at most %d and %d", name, is.fields, is.methods, maxFields,
				maxMethods)
		}
	}
	if len(found) < 300 {
		t.Errorf("%d types were found, want hundreds: the sources are somewhere else", len(found))
	}
}

// sizes returns the size of every type of the module's own code, except tests and generated code.
func sizes(t *testing.T) map[string]size {
	t.Helper()
	found := map[string]size{}
	for path, file := range sources(t) {
		of := func(name string) string { return filepath.ToSlash(filepath.Dir(path)) + "." + name }
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					name := of(receiver(d.Recv.List[0].Type))
					s := found[name]
					s.methods++
					found[name] = s
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						s := found[of(ts.Name.Name)]
						s.fields = fields(ts.Type)
						found[of(ts.Name.Name)] = s
					}
				}
			}
		}
	}
	return found
}

// sources parses the module's own files. The keys are their paths.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root &&
			(strings.HasPrefix(name, ".") || slices.Contains([]string{"proto", "testdata", "tools", "bin"}, name)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		short, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[short], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// fields counts the fields of a struct. Other types have none.
func fields(of ast.Expr) (count int) {
	if s, ok := of.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			count += max(len(f.Names), 1)
		}
	}
	return count
}

// receiver returns the name of a receiver's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	default:
		return "?"
	}
}

// The SDK brings no part of a server into a user's program: no port, no budgets, no health service, no reflection, no
// consensus. Nor does it bring Prometheus: client/recipes/metrics does, to those who import it.
func TestTheSDKLinksNoServer(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "holdfast/client", "holdfast/client/recipes")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	linked := strings.Fields(string(bytes.TrimSpace(out)))
	if !slices.Contains(linked, "holdfast/transport/dial") {
		t.Fatal("the SDK does not link transport/dial: this is not the SDK's list of packages")
	}
	for _, of := range []string{
		"holdfast/transport/port", "holdfast/transport/clientport", "holdfast/transport/peerport",
		"holdfast/transport/gate",
		"holdfast/transport/raftnet", "holdfast/node", "holdfast/fsm", "holdfast/leader", "holdfast/learner",
		"google.golang.org/grpc/health", "google.golang.org/grpc/reflection", "github.com/hashicorp/raft",
		"golang.org/x/time/rate", "github.com/prometheus/client_golang/prometheus",
	} {
		if slices.Contains(linked, of) {
			t.Errorf("the SDK links %s", of)
		}
	}
}
