package config

// Shown is a setting as people may see it.
type Shown struct {
	Name, Value string
	// Origin says where the value comes from: a flag, a variable, a line of a file, the program or the default.
	Origin string
	// Default is the value that no source sets, Help says what the setting does, and Limit is its range.
	Default, Help, Limit string
}

// hidden is shown in the place of a value that others must not see.
const hidden = "(set, not shown)"

// Shown returns all settings of a complete configuration, in the order of [Reference], with where their values come
// from as [Origins] has it. It shows no secret.
func (c Config) Shown(origins map[string]string) []Shown {
	var all []Shown
	for _, s := range settings() {
		one := Shown{
			Name: s.name, Value: s.value(&c).String(), Default: s.fallback(), Help: s.help, Limit: s.limit,
			Origin: "default",
		}
		if s.secret && one.Value != "" {
			one.Value = hidden
		}
		switch from, ok := origins[s.name]; {
		case ok:
			one.Origin = from
		case s.def != "" && one.Value != s.def, s.derived == "" && s.def == "" && one.Value != "":
			one.Origin = "program" // such as node dev
		}
		all = append(all, one)
	}
	return all
}
