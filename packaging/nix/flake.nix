{
  description = "tvec: a timer wheel for event loops (nix build 'git+file:.?dir=packaging/nix')";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      forEach = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ];
      version = builtins.head (builtins.match ".*TVEC_VERSION_STRING \"([^\"]*)\".*"
        (builtins.readFile ../../include/tvec/version.hpp));
    in {
      packages = forEach (system:
        let pkgs = nixpkgs.legacyPackages.${system}; in {
          default = pkgs.stdenv.mkDerivation {
            pname = "tvec";
            inherit version;
            src = ../..;
            nativeBuildInputs = [ pkgs.meson pkgs.ninja pkgs.pkg-config ];
            buildInputs = [ pkgs.liburing pkgs.sqlite pkgs.hiredis pkgs.openssl pkgs.cli11 pkgs.fmt ];
            mesonFlags = [ "-Dtests=disabled" "-Dexamples=disabled" "-Dbench=disabled" "-Db_ndebug=true" ];
            meta.license = pkgs.lib.licenses.mit;
          };
        });
      checks = forEach (system:
        let pkgs = nixpkgs.legacyPackages.${system}; in {
          consumer = pkgs.runCommandCC "tvec-consumer" {
            nativeBuildInputs = [ pkgs.pkg-config ];
            buildInputs = [ self.packages.${system}.default ];
          } ''
            $CXX -std=c++20 ${../../tests/programs/consumers/consumer.cpp} $(pkg-config --cflags --libs tvec) -o consumer
            ./consumer && touch $out
          '';
        });
    };
}
