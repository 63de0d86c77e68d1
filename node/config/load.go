package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	envPrefix      = "HOLDFAST_"
	configFlag     = "config"
	configVariable = envPrefix + "CONFIG"
	// endpointsVariable and principalVariable are the command line client's: they may stand beside the node's own.
	endpointsVariable = envPrefix + "ENDPOINTS"
	principalVariable = envPrefix + "PRINCIPAL"
)

// serviceLink is a variable that Kubernetes gives to every pod in the namespace of a Service named holdfast: nobody
// wrote it. A HOLDFAST_PORT that is no address with a scheme was written by somebody who takes it for a setting.
var serviceLink = regexp.MustCompile(`^` + envPrefix + `(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=` +
	`|PORT(_[0-9]+_(TCP|UDP))?=(tcp|udp)://|PORT_[0-9]+_(TCP|UDP)_(ADDR|PORT|PROTO)=)`)

// rawFlag keeps what was written, so that a value that makes no sense is named together with all the others.
type rawFlag struct{ written, kind string }

// Set accepts everything.
func (f *rawFlag) Set(s string) error { f.written = s; return nil }

// String returns what was written.
func (f *rawFlag) String() string { return f.written }

// Type is the kind of value, for people.
func (f *rawFlag) Type() string { return f.kind }

// RegisterFlags adds a flag for every setting, and --config, to fs. [Load] reads them.
func RegisterFlags(fs *pflag.FlagSet) {
	fs.Var(&rawFlag{kind: "file"}, configFlag, "YAML file with settings (or "+configVariable+")")
	for _, s := range settings() {
		f := fs.VarPF(&rawFlag{kind: s.kind}, s.flag(), "", s.help+" ("+s.limit+")")
		f.DefValue = s.fallback()
	}
}

// Load reads a configuration from the flags of [RegisterFlags], the environment (KEY=VALUE, as [os.Environ] returns it),
// and the file that --config or HOLDFAST_CONFIG names, in this order of precedence; the rest is defaults. A variable
// that is empty counts as not set. The error joins a [SettingError] for each problem, wherever it is: unknown keys and
// variables (but for the links of Kubernetes to a Service named holdfast), values that make no sense, and combinations that cannot work.
func Load(fs *pflag.FlagSet, environ []string) (Config, error) {
	l := loader{c: Default(), rows: map[string]setting{}, from: provenance{map[string]string{}, map[string]bool{}}}
	for _, s := range settings() {
		l.rows[s.name] = s
	}
	env := holdfastVariables(environ)
	path, origin := env[configVariable], "environment "+configVariable
	if f := fs.Lookup(configFlag); f != nil && f.Changed {
		path, origin = f.Value.String(), "flag --"+configFlag
	}
	fileRead := l.file(path, origin)
	l.environ(env)
	l.flags(fs)
	if !fileRead { // what the file would have said is unknown: nothing else can be judged
		return Config{}, errors.Join(l.problems...)
	}
	c, err := l.c.complete(l.from)
	if err = errors.Join(append(l.problems, err)...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// loader sets what the sources say, in the order of rising precedence.
type loader struct {
	c        Config
	rows     map[string]setting
	from     provenance
	problems []error
}

func (l *loader) complain(setting, value, origin, limit string) {
	l.problems = append(l.problems, &SettingError{Setting: setting, Value: value, Origin: origin, Limit: limit})
}

func (l *loader) set(name, written, origin string) {
	l.from.origin[name] = origin
	if err := l.rows[name].value(&l.c).Set(written); err != nil {
		l.from.unreadable[name] = true
		l.complain(name, fmt.Sprintf("%q", written), origin, err.Error())
	}
}

func (l *loader) flags(fs *pflag.FlagSet) {
	for _, s := range settings() {
		if f := fs.Lookup(s.flag()); f != nil && f.Changed {
			l.set(s.name, f.Value.String(), "flag --"+s.flag())
		}
	}
}

func (l *loader) environ(env map[string]string) {
	for _, s := range settings() {
		if v := env[s.variable()]; v != "" {
			l.set(s.name, v, "environment "+s.variable())
		}
		delete(env, s.variable())
	}
	delete(env, configVariable)
	for _, name := range sortedKeys(env) {
		l.complain(name, "", "environment", "is no setting: see node run --help")
	}
}

// file reports whether there is no file to read, or it could be read.
func (l *loader) file(path, origin string) bool {
	if path == "" {
		return true
	}
	b, err := readBounded(path)
	if err != nil {
		l.complain(configFlag, path, origin, "cannot be read: "+err.Error())
		return false
	}
	root, err := parseYAML(b)
	if err != nil {
		l.complain(configFlag, path, origin, err.Error())
		return false
	}
	if root != nil {
		l.mapping(root, path)
	}
	return true
}

// maxFileBytes bounds what is read of a configuration file: one of 254 peers has some 30 KB.
const maxFileBytes = 1 << 20

// readBounded reads a file that is not too large.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return b, err
}

func (l *loader) mapping(root *yaml.Node, path string) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		origin := fmt.Sprintf("file %s, line %d", path, key.Line)
		switch _, known := l.rows[key.Value]; {
		case !known:
			l.complain(key.Value, "", origin, "is no setting: see node run --help")
		case seen[key.Value]:
			l.complain(key.Value, "", origin, "is set twice")
		case key.Value == "peers" && value.Kind == yaml.SequenceNode:
			l.peers(value, path, origin)
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			l.complain(key.Value, "", origin, "must be a single value")
			l.from.unreadable[key.Value] = true
		default:
			l.set(key.Value, value.Value, origin)
		}
		seen[key.Value] = true
	}
}

func (l *loader) peers(list *yaml.Node, path, origin string) {
	l.from.origin["peers"] = origin
	l.c.Peers = nil
	for _, item := range list.Content {
		p, err := peerFromYAML(item)
		if err != nil {
			l.complain("peers", "", fmt.Sprintf("file %s, line %d", path, item.Line), err.Error())
			l.from.unreadable["peers"] = true
			continue
		}
		l.c.Peers = append(l.c.Peers, p)
	}
}

// parseYAML returns the mapping of a file of one document, nil when the file says nothing.
func parseYAML(b []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // an empty file is fine and has no mapping
	case err != nil:
		if line := tabbed(b); line > 0 {
			return nil, fmt.Errorf("is no YAML: line %d is indented with a tab, and YAML wants spaces", line)
		}
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one YAML document")
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil //nolint:nilnil // as above
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("must be a YAML mapping of settings")
	}
	return root, nil
}

// tabbed returns the number of the first line whose indentation holds a tab, 0 when there is none.
func tabbed(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		n++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 {
			return n
		}
	}
	return 0
}

// Variables returns the names of the variables of environ that [Load] would read or refuse and that are not empty, sorted.
func Variables(environ []string) []string {
	env := holdfastVariables(environ)
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return sortedKeys(env)
}

// holdfastVariables returns what was written for a node: neither what is the command line client's, nor what nobody wrote.
func holdfastVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, envPrefix) && !serviceLink.MatchString(kv) {
			env[k] = v
		}
	}
	delete(env, endpointsVariable)
	delete(env, principalVariable)
	return env
}
