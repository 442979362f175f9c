package archtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"nightshift/config"
	"nightshift/internal/app"
)

// mounted is where the containers have the configuration.
const mounted = "/etc/nightshift/nightshift.yaml"

// compose checks docker-compose.yml against the configuration that it mounts
// and against what a container of ours may do.
func compose(root string) ([]string, error) {
	project, err := loadProject(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range []string{"redis", "worker", "dashboard"} {
		if _, ok := project.Services[name]; !ok {
			problems = append(problems, "there is no service "+name)
		}
	}
	all := project.AllServices()
	for _, name := range project.ServiceNames() {
		problems = append(problems, service(all[name])...)
	}
	if s, ok := project.Services["redis"]; ok {
		problems = append(problems, store(s)...)
	}
	for _, name := range []string{"worker", "dashboard"} {
		if s, ok := project.Services[name]; ok && s.HealthCheck != nil && len(s.HealthCheck.Test) > 1 && !slices.Contains(s.HealthCheck.Test, "health") {
			problems = append(problems, name+": its health check does not ask the process that runs (worker health)")
		}
	}
	if s, ok := project.Services["worker"]; ok {
		problems = append(problems, scales(s)...)
		problems = append(problems, fits(root, s)...)
	}
	if s, ok := project.Services["dashboard"]; ok {
		problems = append(problems, fits(root, s)...)
	}
	return problems, nil
}

func loadProject(root string) (*types.Project, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", root, err)
	}
	file := filepath.Join(abs, "docker-compose.yml")
	options, err := cli.NewProjectOptions([]string{file}, cli.WithWorkingDirectory(abs), cli.WithoutEnvironmentResolution, cli.WithProfiles([]string{"monitoring"}))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", file, err)
	}
	return project, nil
}

// service checks what holds for every container that stays up.
func service(s types.ServiceConfig) []string {
	var problems []string
	wrong := func(why string) { problems = append(problems, s.Name+": "+why) }
	if h := s.HealthCheck; h == nil || h.Disable || len(h.Test) == 0 {
		wrong("has no health check")
	}
	if user, _, _ := strings.Cut(s.User, ":"); user == "" || user == "root" || user == "0" {
		wrong("runs as root")
	}
	if s.Privileged || len(s.CapAdd) > 0 || !slices.Contains(s.CapDrop, "ALL") {
		wrong("keeps capabilities")
	}
	if !s.ReadOnly {
		wrong("can write to its root file system")
	}
	if s.StopGracePeriod == nil {
		wrong("has no grace period")
	}
	if s.Build != nil {
		if _, err := os.Stat(filepath.Join(s.Build.Context, "Dockerfile")); err != nil {
			wrong("is built of a Dockerfile that does not exist")
		}
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if _, err := os.Stat(v.Source); err != nil {
			wrong("mounts " + filepath.Base(v.Source) + ", which does not exist")
		}
	}
	return problems
}

// store checks that Redis keeps what it is given.
func store(s types.ServiceConfig) []string {
	var problems []string
	command := strings.Join(s.Command, " ")
	for _, setting := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(command, setting) {
			problems = append(problems, "redis: runs without "+setting)
		}
	}
	keeps := func(v types.ServiceVolumeConfig) bool { return v.Type == types.VolumeTypeVolume && v.Target == "/data" }
	if !slices.ContainsFunc(s.Volumes, keeps) {
		problems = append(problems, "redis: has no volume at /data")
	}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			problems = append(problems, "redis: is published beyond loopback")
		}
	}
	return problems
}

// scales checks that there can be more than one worker.
func scales(s types.ServiceConfig) []string {
	if s.ContainerName != "" || len(s.Ports) > 0 || s.NetworkMode != "" {
		return []string{"worker: does not scale: it has a name, a port or a network of its own"}
	}
	return nil
}

// fits checks a service against the configuration that it mounts.
func fits(root string, s types.ServiceConfig) []string {
	i := slices.IndexFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == mounted })
	if i < 0 || !s.Volumes[i].ReadOnly {
		return []string{s.Name + ": does not mount " + mounted + " read-only"}
	}
	source := s.Volumes[i].Source
	text, err := os.ReadFile(source)
	if err != nil {
		return nil // reported as a volume that does not exist
	}
	if abs, err := filepath.Abs(root); err == nil {
		source = strings.TrimPrefix(source, abs+string(filepath.Separator))
	}
	cfg, err := config.Parse(source, text, environment(s))
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", s.Name, err)}
	}
	if s.Name == "dashboard" && strings.HasPrefix(cfg.Dashboard.Addr, "127.0.0.1:") && s.NetworkMode != "host" {
		return []string{"dashboard: listens on loopback and is not in the host's network: nobody can reach it"}
	}
	if need := app.StopTime(cfg); s.Name == "worker" && s.StopGracePeriod != nil && time.Duration(*s.StopGracePeriod) < need {
		return []string{fmt.Sprintf("worker: is killed after %s, but shutting down takes up to %s", s.StopGracePeriod, need)}
	}
	return nil
}

// environment is a service's own. What it only names is passed on from the
// shell: a key.
func environment(s types.ServiceConfig) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := s.Environment[name]
		if !ok {
			return "", false
		}
		if value == nil {
			return "passed-on", true
		}
		return *value, true
	}
}
