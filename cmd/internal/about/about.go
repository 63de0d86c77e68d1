// Package about says which build of Holdfast a program is.
package about

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"

	"holdfast/session"
)

// version and commit are set by the linker: see the Makefile and deploy/release.
//
//nolint:gochecknoglobals // the linker can only set global variables
var version, commit string

// Build describes a program's build, in JSON as "holdfast version -o json" shows it.
type Build struct {
	Version string `json:"version"`
	// Commit ends with "-dirty" when the sources had changes that are not in the commit.
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// FeatureLevel is the newest feature level that the program knows.
	FeatureLevel int `json:"feature_level"`
	// Formats has the number of each form that the program reads and writes.
	Formats map[string]uint64 `json:"formats"`
}

// Version returns the version that the linker has set, or else the version that Go recorded in the build.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); version == "" && ok {
		return cmp.Or(info.Main.Version, "unknown")
	}
	return cmp.Or(version, "unknown")
}

// Program returns the build of the running program.
func Program() Build {
	b := Build{
		Version: Version(), Commit: cmp.Or(commit, noted(), "unknown"), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, FeatureLevel: session.FeatureLevel, Formats: map[string]uint64{},
	}
	for _, f := range session.Formats() {
		b.Formats[strings.ReplaceAll(f.Name, " ", "_")] = f.Number
	}
	return b
}

// noted returns the commit that Go noted in the build, or "".
func noted() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	at := settings["vcs.revision"]
	if at != "" && settings["vcs.modified"] == "true" {
		at += "-dirty"
	}
	return at
}
