package app

import "runtime/debug"

// Version returns the version that the binary was built from: the module's, or
// the commit, with "+dirty" where the tree was not clean; "devel" where the
// build recorded neither.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	commit := set["vcs.revision"]
	if commit == "" {
		return "devel"
	}
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if set["vcs.modified"] == "true" {
		commit += "+dirty"
	}
	return commit
}

// Revision returns the commit that the binary was built from; "" where the
// build recorded none.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
