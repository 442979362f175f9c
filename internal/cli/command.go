package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// prepare gives the root command the manners of every program: its streams, the
// common flags, errors that Execute prints, and usage errors with one line and
// a hint in place of the whole usage.
func (e *Env) prepare(root *cobra.Command) {
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.DisableAutoGenTag = true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Args = e.noSuchCommand
	root.RunE = func(*cobra.Command, []string) error {
		return Usage(fmt.Sprintf("%s help lists the commands", e.Name), "a command is missing")
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usage(seeHelp(c), "%s", plainFlagError(err))
	})
	e.Common.register(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return e.Common.check() }
	root.AddCommand(referenceCommand(e))
}

func (e *Env) noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("%s help lists the commands", e.Name)
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", e.Name, strings.Join(near, " or "+e.Name+" "))
	}
	return Usage(hint, "there is no command %q", args[0])
}

func seeHelp(c *cobra.Command) string { return c.CommandPath() + " --help shows its flags" }

// plainFlagError words pflag's errors as ours are.
func plainFlagError(err error) string {
	s := err.Error()
	if name, ok := strings.CutPrefix(s, "unknown flag: "); ok {
		return "there is no flag " + name
	}
	return s
}

// Args checks that a command has the arguments that its use line names, in
// capitals: those in brackets may be left out.
func Args(c *cobra.Command, args []string) error {
	var need, may []string
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "[") {
			may = append(may, strings.Trim(word, "[]"))
		} else {
			need = append(need, word)
		}
	}
	if len(args) < len(need) {
		return Usage("usage: "+useLine(c), "%s is missing", need[len(args)])
	}
	if most := len(need) + len(may); len(args) > most {
		return Usage("usage: "+useLine(c), "unexpected argument %q", args[most])
	}
	if i := slices.Index(args, ""); i >= 0 {
		return Usage("usage: "+useLine(c), "%s is empty", slices.Concat(need, may)[i])
	}
	return nil
}

// useLine is the command line of a command, e.g. "enqueue batch FILE [flags]".
func useLine(c *cobra.Command) string {
	line := c.CommandPath()
	if _, rest, ok := strings.Cut(c.Use, " "); ok {
		line += " " + rest
	}
	if c.HasAvailableLocalFlags() {
		line += " [flags]"
	}
	return line
}
