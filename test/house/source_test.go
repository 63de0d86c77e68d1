package house

import (
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// module is the path of this module, and root its directory as the tests of this package see it.
const (
	module = "holdfast"
	root   = "../.."
)

// source is what the documents are compared with. A name is that of a package below the module, a dot, and that of the
// constant, the field or the test in it: tree.MaxOps, tree/writers.DefaultLimits.Bytes, zk.TestMulti.
type source struct {
	// constants are those of production code, and the fields of what functions such as DefaultLimits return.
	constants map[string]constant.Value
	// durations are those of constants that are a time.Duration.
	durations map[string]bool
	// bounds are the constants and fields whose names say that they may be limits.
	bounds map[string]bool
	// refusals are the names of limits in errors that name one, texts all short texts of production code.
	refusals, texts map[string]bool
	tests           map[string]bool
}

// few are the packages beyond the module whose constants limits are made of. Reading the real ones takes seconds.
var few = map[string]string{
	"math": "package math; const (MaxInt32 = 1<<31 - 1; MaxInt64 = 1<<63 - 1; MaxUint16 = 1<<16 - 1; " +
		"MaxUint32 = 1<<32 - 1; MaxUint64 = 1<<64 - 1)",
	"time": "package time; type Duration int64; const (Nanosecond Duration = 1; Microsecond = 1000 * Nanosecond; " +
		"Millisecond = 1000 * Microsecond; Second = 1000 * Millisecond; Minute = 60 * Second; Hour = 60 * Minute)",
}

// read reads the source of the module: production code with its types, of tests the names.
func read(t *testing.T) *source {
	t.Helper()
	s := &source{
		constants: map[string]constant.Value{}, durations: map[string]bool{}, bounds: map[string]bool{},
		refusals: map[string]bool{}, texts: map[string]bool{}, tests: map[string]bool{},
	}
	r := reader{
		files: token.NewFileSet(), parsed: map[string][]*ast.File{}, checked: map[string]*types.Package{}, found: s,
	}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, file)
		switch {
		case err != nil:
			return err
		case d.IsDir() && below != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(below, "_test.go"):
			return s.testsOf(file, path.Dir(filepath.ToSlash(below)))
		case d.IsDir() || !strings.HasSuffix(below, ".go") || !production(below):
			return nil
		}
		return r.parse(file, path.Dir(filepath.ToSlash(below)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range r.parsed {
		r.check(dir)
	}
	if len(s.constants) < 500 || len(s.tests) < 500 {
		t.Fatalf("%d constants and %d tests: this is not the source", len(s.constants), len(s.tests))
	}
	return s
}

// production reports whether a file is part of what users and operators run.
func production(below string) bool {
	switch first, _, _ := strings.Cut(filepath.ToSlash(below), "/"); first {
	case "test", "bench", "proto", "tools":
		return false
	}
	return true
}

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

func (s *source) testsOf(file, dir string) error {
	b, err := os.ReadFile(file)
	for _, name := range testName.FindAllSubmatch(b, -1) {
		s.tests[dir+"."+string(name[1])] = true
	}
	return err
}

type reader struct {
	files   *token.FileSet
	parsed  map[string][]*ast.File
	checked map[string]*types.Package
	found   *source
}

// parse reads a file. It leaves out the bodies of functions without constants: to find their types takes long.
func (r *reader) parse(file, dir string) error {
	if ok, err := build.Default.MatchFile(filepath.Split(file)); !ok || err != nil {
		return err
	}
	f, err := parser.ParseFile(r.files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool { return r.found.visit(n) })
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && !isDefault(d) && !hasConstants(d) {
			d.Body = nil
		}
	}
	r.parsed[dir] = append(r.parsed[dir], f)
	return nil
}

// visit notes texts, and the names of limits in errors.
func (s *source) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(text) < 64 {
			s.texts[text] = true
		}
	case *ast.CompositeLit:
		if n.Type == nil || !strings.HasSuffix(types.ExprString(n.Type), "LimitError") {
			return true
		}
		if name, ok := fields(n)["Name"].(*ast.BasicLit); ok {
			text, _ := strconv.Unquote(name.Value)
			s.refusals[text] = true
		}
	}
	return true
}

// defaults matches functions that return limits.
var defaults = regexp.MustCompile(`^[dD]efault\w*(?:Limits|Tuning|Parts)$`)

func isDefault(d *ast.FuncDecl) bool {
	return d.Recv == nil && d.Body != nil && defaults.MatchString(d.Name.Name)
}

func hasConstants(d *ast.FuncDecl) (has bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		g, ok := n.(*ast.GenDecl)
		has = has || ok && g.Tok == token.CONST
		return !has
	})
	return has
}

// Import returns a package of the module, one of [few], or an empty one, whose types and functions no constant needs.
func (r *reader) Import(of string) (*types.Package, error) {
	if dir, ok := strings.CutPrefix(of, module+"/"); ok && r.parsed[dir] != nil {
		return r.check(dir), nil
	}
	if r.checked[of] == nil {
		r.checked[of] = types.NewPackage(of, path.Base(of))
		if text := few[of]; text != "" {
			f, err := parser.ParseFile(r.files, of, text, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			return r.checked[of], types.NewChecker(&types.Config{}, r.files, r.checked[of], nil).Files([]*ast.File{f})
		}
		r.checked[of].MarkComplete()
	}
	return r.checked[of], nil
}

// check finds out the types of a package, once, and notes its constants.
func (r *reader) check(dir string) *types.Package {
	if p := r.checked[module+"/"+dir]; p != nil {
		return p
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: r, Error: func(error) {}}
	p, _ := config.Check(module+"/"+dir, r.files, r.parsed[dir], info) // its errors are of what is not imported
	r.checked[p.Path()] = p
	for _, object := range info.Defs {
		if c, ok := object.(*types.Const); ok {
			r.found.note(dir+"."+c.Name(), c.Val(), c.Type(), looksLikeALimit.MatchString(c.Name()))
		}
	}
	for _, f := range r.parsed[dir] {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && isDefault(d) {
				r.found.returns(dir, d, info)
			}
		}
	}
	return p
}

// looksLikeALimit matches names with one of these words.
var looksLikeALimit = regexp.MustCompile(
	`(?:^|[a-z0-9])(?:[mM]ax|[mM]ost|[lL]imit|[qQ]ueued|[kK]ept|[bB]urst|Per)(?:[A-Z]|$)`)

func (s *source) note(name string, v constant.Value, of types.Type, bound bool) {
	if v.Kind() != constant.Int && v.Kind() != constant.Float {
		return
	}
	s.constants[name] = v
	s.durations[name] = of.String() == "time.Duration"
	s.bounds[name] = bound
}

// returns notes the fields of what a function returns.
func (s *source) returns(dir string, d *ast.FuncDecl, info *types.Info) {
	for _, statement := range d.Body.List {
		if r, ok := statement.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			s.fields(dir+"."+d.Name.Name, r.Results[0], info)
		}
	}
}

// fields notes the fields of a value, and those of its fields.
func (s *source) fields(of string, e ast.Expr, info *types.Info) {
	l, ok := e.(*ast.CompositeLit)
	if !ok {
		return
	}
	for name, value := range fields(l) {
		if v := info.Types[value]; v.Value != nil {
			s.note(of+"."+name, v.Value, v.Type, !isName(value))
		}
		s.fields(of+"."+name, value, info)
	}
}

// isName reports whether an expression names a constant, which then stands for itself.
func isName(e ast.Expr) bool {
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return true
	}
	return false
}

func fields(l *ast.CompositeLit) map[string]ast.Expr {
	all := map[string]ast.Expr{}
	for _, e := range l.Elts {
		if e, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := e.Key.(*ast.Ident); ok {
				all[key.Name] = e.Value
			}
		}
	}
	return all
}
