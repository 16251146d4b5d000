package secrets

import "path/filepath"

// Owner says where a name has its value from, as the command line shows it.
type Owner string

// The owners, in the order in which the first one that has a value wins.
const (
	Shell   Owner = "shell"   // the process's own environment
	Managed Owner = "secrets" // the file of managed secrets
	Beside  Owner = ".env"    // the .env file beside the configuration
	Nobody  Owner = "unset"
)

// Sources are all places where a name may have a value. None of them changes the environment of the process.
type Sources struct {
	Env    func(name string) (string, bool)
	Store  Store
	DotEnv DotEnv
}

// Open finds the sources of a configuration file: the managed secrets in the file that SIGNALBOX_SECRETS names, else in
// secrets.json beside it, and the .env beside it, which is read now and never again.
func Open(config string, env func(string) (string, bool)) Sources {
	return Sources{env, At(pathFor(config, env)), ReadDotEnv(filepath.Join(filepath.Dir(config), ".env"))}
}

// WithoutDotEnv is Open for a text that is no file of its own.
func WithoutDotEnv(config string, env func(string) (string, bool)) Sources {
	return Sources{Env: env, Store: At(pathFor(config, env))}
}

func pathFor(config string, env func(string) (string, bool)) string {
	if path, _ := env("SIGNALBOX_SECRETS"); path != "" {
		return path
	}
	return filepath.Join(filepath.Dir(config), "secrets.json")
}

// Owned returns the value that wins and where it is from; book is what the store holds. Empty is as good as unset.
func (s *Sources) Owned(name string, book Book) (string, Owner) {
	if value, _ := s.Env(name); value != "" {
		return value, Shell
	}
	if value, _ := book.Lookup(name); value != "" {
		return value, Managed
	}
	if value, _ := s.DotEnv.Lookup(name); value != "" {
		return value, Beside
	}
	return "", Nobody
}
