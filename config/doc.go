// Package config is the file nightshift.yaml: its types, defaults, strict load,
// validation and redaction.
//
// [Load] returns a complete [Config] or all problems at once, each with its line
// and column. Secrets are only named in the file; [Provider.Key] reads them when
// they are needed, and nothing prints them.
package config
