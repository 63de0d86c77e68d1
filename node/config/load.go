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
	// These variables belong to the command line client, and so do clientVariables. They may be set next to the node's
	// own.
	endpointsVariable  = envPrefix + "ENDPOINTS"
	clientNameVariable = envPrefix + "CLIENT_NAME"
	tokenVariable      = envPrefix + "AUTH_TOKEN"
	tokenFileVariable  = envPrefix + "AUTH_TOKEN_FILE"
)

// clientVariables are those of the files of TLS that callers of a node use.
func clientVariables() []string { return []string{"CACERT", "CERT", "KEY", "SERVER_NAME"} }

// serviceLink matches the variables that Kubernetes sets in every pod in the namespace of a Service named holdfast. A
// HOLDFAST_PORT that is no address with a scheme is not one of them: a user has set it, and takes it for a setting.
var serviceLink = regexp.MustCompile(`^` + envPrefix + `(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=` +
	`|PORT(_[0-9]+_(TCP|UDP))?=(tcp|udp)://|PORT_[0-9]+_(TCP|UDP)_(ADDR|PORT|PROTO)=)`)

// rawFlag keeps the text of a flag unread, so that [Load] reports an unreadable value together with all other problems.
type rawFlag struct{ written, kind string }

// Set accepts any text.
func (f *rawFlag) Set(s string) error { f.written = s; return nil }

// String returns the text.
func (f *rawFlag) String() string { return f.written }

// Type returns the kind of value, for help texts.
func (f *rawFlag) Type() string { return f.kind }

// RegisterFlags adds a flag for every setting that is no secret, and --config, to fs. [Load] reads them.
func RegisterFlags(fs *pflag.FlagSet) {
	fs.Var(&rawFlag{kind: "file"}, configFlag, "YAML file with settings (or "+configVariable+")")
	for _, s := range settings() {
		if s.secret {
			continue
		}
		f := fs.VarPF(&rawFlag{kind: s.kind}, s.flag(), "", s.help+" ("+s.limit+")")
		f.DefValue = s.fallback()
		if s.name == joinSetting { // node run --join
			f.NoOptDefVal = on
		}
	}
}

// Load reads a configuration from the flags of [RegisterFlags], the environment (KEY=VALUE, as [os.Environ] returns
// it), and the file that --config or HOLDFAST_CONFIG names, in this order of precedence. The rest is defaults. An empty
// variable counts as not set. The error joins a [SettingError] for each problem of all sources: an unknown key or
// variable (except the links of Kubernetes to a Service named holdfast), an unreadable value, or a combination that
// cannot work.
func Load(fs *pflag.FlagSet, environ []string) (Config, error) {
	l, fileRead := read(fs, environ)
	if !fileRead { // the values of the file are unknown, so that nothing else can be checked
		return Config{}, errors.Join(l.problems...)
	}
	c, err := l.c.complete(l.from)
	if err = errors.Join(append(l.problems, err)...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Origins says where the values come from that [Load] reads from the same sources, by the names of their settings. What
// is not in it has its default.
func Origins(fs *pflag.FlagSet, environ []string) map[string]string {
	l, _ := read(fs, environ)
	return l.from.origin
}

// read reads all sources. It reports false when the file cannot be read.
func read(fs *pflag.FlagSet, environ []string) (*loader, bool) {
	l := &loader{c: Default(), rows: map[string]setting{}, from: provenance{map[string]string{}, map[string]bool{}}}
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
	return l, fileRead
}

// loader reads the sources one after the other, in the order of rising precedence.
type loader struct {
	c        Config
	rows     map[string]setting
	from     provenance
	problems []error
}

func (l *loader) reject(setting, value, origin, limit string) {
	l.problems = append(l.problems, &SettingError{Setting: setting, Value: value, Origin: origin, Limit: limit})
}

func (l *loader) set(name, written, origin string) {
	l.from.origin[name] = origin
	if err := l.rows[name].value(&l.c).Set(written); err != nil {
		l.from.unreadable[name] = true
		l.reject(name, fmt.Sprintf("%q", written), origin, err.Error())
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
		l.reject(name, "", "environment", "is not a setting: see node run --help")
	}
}

// file reads the file at path, if there is one. It reports false when the file cannot be read.
func (l *loader) file(path, origin string) bool {
	if path == "" {
		return true
	}
	b, err := readBounded(path)
	if err != nil {
		l.reject(configFlag, path, origin, "cannot be read: "+err.Error())
		return false
	}
	root, err := parseYAML(b)
	if err != nil {
		l.reject(configFlag, path, origin, err.Error())
		return false
	}
	if root != nil {
		l.mapping(root, path)
	}
	return true
}

// maxFileBytes bounds a configuration file. A file with 254 peers has about 30 KB.
const maxFileBytes = 1 << 20

// readBounded reads a file of at most maxFileBytes.
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
			l.reject(key.Value, "", origin, "is not a setting: see node run --help")
		case seen[key.Value]:
			l.reject(key.Value, "", origin, "is set twice")
		case key.Value == "peers" && value.Kind == yaml.SequenceNode:
			l.peers(value, path, origin)
		case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
			l.reject(key.Value, "", origin, "must be a single value")
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
			l.reject("peers", "", fmt.Sprintf("file %s, line %d", path, item.Line), err.Error())
			l.from.unreadable["peers"] = true
			continue
		}
		l.c.Peers = append(l.c.Peers, p)
	}
}

// parseYAML returns the mapping in a file of one document, nil for a file without content.
func parseYAML(b []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // an empty file is fine and has no mapping
	case err != nil:
		if line := tabbed(b); line > 0 {
			return nil, fmt.Errorf("is not YAML: line %d is indented with a tab: use spaces", line)
		}
		return nil, fmt.Errorf("is not YAML: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be a single YAML document")
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

// tabbed returns the number of the first line with a tab in its indentation, 0 when there is none.
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

// Variables returns the sorted names of the variables in environ that are not empty, and that [Load] would read or
// refuse.
func Variables(environ []string) []string {
	env := holdfastVariables(environ)
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return sortedKeys(env)
}

// holdfastVariables returns the variables that a user has set for a node: it leaves out the variables of the command
// line client and of Kubernetes.
func holdfastVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, envPrefix) && !serviceLink.MatchString(kv) {
			env[k] = v
		}
	}
	delete(env, endpointsVariable)
	delete(env, clientNameVariable)
	for _, name := range clientVariables() {
		delete(env, envPrefix+name)
	}
	delete(env, tokenVariable)
	delete(env, tokenFileVariable)
	return env
}
