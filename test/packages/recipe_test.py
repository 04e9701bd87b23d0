#!/usr/bin/env python3
# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""Tests of the Conan recipes without Conan, which Debian does not package.

A small fake of the `conan` module loads each recipe and calls its methods as Conan does. The CMake files for consumers
are read by the real CMake. Run it by test/packages/check, or alone."""

import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True # no __pycache__ beside the recipes

ROOT = Path(__file__).resolve().parents[2]
INDEX_RECIPE = ROOT / "packaging" / "conan-center" / "recipes" / "boost_rdma"


# The fake of the `conan` module.

class InvalidConfiguration(Exception):
    pass


class Version:
    def __init__(self, text):
        self.parts = [int(part) for part in str(text).split(".")]

    def __lt__(self, other):
        return self.parts < Version(other).parts


class Options:
    """Options of a package. `options["name"]` are the values that the recipe sets for a dependency."""

    def __init__(self, **values):
        self.__dict__.update(values)
        self.__dict__["_dependencies"] = {}

    def __getitem__(self, name):
        return self._dependencies.setdefault(name, Options())

    def get_safe(self, name, default=None):
        return self.__dict__.get(name, default)

    def rm_safe(self, name):
        self.__dict__.pop(name, None)


class Compiler(str):
    """The setting `compiler` with its sub-settings."""


class CppInfo:
    def __init__(self):
        self.properties = {}
        self.libs = []
        self.system_libs = []
        self.requires = []

    def set_property(self, name, value):
        self.properties[name] = value


class Conf(dict):
    def define(self, name, value):
        self[name] = value

    def get(self, name, default=None, check_type=None):
        return super().get(name, default)


class FakeConanFile:
    ref = "boost_rdma/0.1.0"

    def requires(self, reference, **traits):
        name, version = reference.split("/")
        self.required[name] = {"version": version, **traits}

    def tool_requires(self, reference):
        pass


class FakeCMake:
    """Installs the CMake package only: this is the part that the recipes change."""

    def __init__(self, recipe):
        self.recipe = recipe

    def install(self):
        directory = Path(self.recipe.package_folder, "lib", "cmake", "boost_rdma")
        directory.mkdir(parents=True)
        directory.joinpath("boost_rdma-config.cmake").touch()
        template = ROOT / "cmake" / "boost_rdma-same_boost.cmake.in"
        if template.exists():
            text = template.read_text().replace("@Boost_VERSION_MAJOR@", "1").replace("@Boost_VERSION_MINOR@", "81")
            directory.joinpath("boost_rdma-same_boost.cmake").write_text(text)


def check_min_cppstd(recipe, minimum):
    if int(recipe.settings.compiler.cppstd) < minimum:
        raise InvalidConfiguration("C++ standard")


def copy(recipe, pattern, src, dst):
    for path in Path(src).rglob("*"):
        if path.is_file() and fnmatch.fnmatch(path.name, pattern):
            target = Path(dst, path.relative_to(src))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def save(recipe, path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)


def install_fake_conan():
    names = {
        "conan": {"ConanFile": FakeConanFile},
        "conan.errors": {"ConanInvalidConfiguration": InvalidConfiguration},
        "conan.tools": {},
        "conan.tools.build": {"check_min_cppstd": check_min_cppstd, "can_run": None},
        "conan.tools.cmake": {"CMake": FakeCMake, "CMakeDeps": None, "CMakeToolchain": None, "cmake_layout": None},
        "conan.tools.files": {
            "copy": copy, "get": None, "load": lambda recipe, path: Path(path).read_text(),
            "rmdir": lambda recipe, path: shutil.rmtree(path, ignore_errors=True), "save": save},
        "conan.tools.scm": {"Version": Version},
        "conan.tools.system": {},
        "conan.tools.system.package_manager": {"Apt": None, "Dnf": None, "PacMan": None},
    }
    for name, content in names.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module


def load_recipe(path):
    spec = importlib.util.spec_from_file_location("recipe", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BoostRdmaConan


def dependency(version, **options):
    return types.SimpleNamespace(ref=types.SimpleNamespace(version=version), options=Options(**options))


def check_component_requires(recipe):
    """Conan's own check of cpp_info.requires: none, or all direct dependencies. It counts those of the platform too."""
    listed = {name.split("::")[0] for name in recipe.cpp_info.requires}
    declared = {name for name, traits in recipe.required.items() if traits.get("visible", True)}
    return not listed or listed == declared


# The checks that both recipes must pass.

class RecipeChecks:
    path = None

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def recipe(self, arch="x86_64", platform=(), spdlog=None, **options):
        """A recipe after configure() and requirements(). `platform` names the packages of [platform_requires]."""
        recipe = load_recipe(self.path)()
        compiler = Compiler("gcc")
        compiler.version = "12"
        compiler.cppstd = "20"
        recipe.settings = types.SimpleNamespace(os="Linux", arch=arch, compiler=compiler, build_type="Release")
        recipe.options = Options(**{**recipe.default_options, **options})
        recipe.conf = Conf()
        recipe.cpp_info = CppInfo()
        recipe.required = {}
        recipe.recipe_folder = str(self.path.parent)
        recipe.configure()
        recipe.requirements()
        shared = recipe.options["spdlog"].get_safe("shared", False)
        all_dependencies = {
            "boost": dependency("1.86.0"),
            "spdlog": spdlog or dependency("1.14.1", shared=shared),
            "rdma-core": dependency("52.0"),
        }
        # Conan leaves out the packages of the platform.
        recipe.dependencies = {
            name: value for name, value in all_dependencies.items() if name in recipe.required and name not in platform}
        return recipe

    def cpp_info(self, **arguments):
        recipe = self.recipe(**arguments)
        recipe.package_info()
        self.assertTrue(check_component_requires(recipe), "Conan rejects cpp_info.requires")
        return recipe.cpp_info

    def package(self, **arguments):
        """The recipe after package() and package_info()."""
        recipe = self.recipe(**arguments)
        recipe.source_folder = str(ROOT)
        recipe.package_folder = str(self.directory / "package")
        recipe.package()
        recipe.package_info()
        return recipe

    def find_package(self, recipe, boost="", features="cxx_std_20"):
        """Runs CMake on a project that finds the package by files like those of Conan's CMakeDeps.

        `boost` is CMake code that finds the Boost of the project. Returns the output, or "" if CMake succeeds."""
        modules = recipe.cpp_info.properties.get("cmake_build_modules", [])
        generators = self.directory / "generators"
        shutil.rmtree(generators, ignore_errors=True)
        generators.mkdir()
        includes = "".join(f'include("{recipe.package_folder}/{module}")\n' for module in modules)
        (generators / "boost_rdma-config.cmake").write_text(
            f"add_library(boost_rdma::boost_rdma INTERFACE IMPORTED)\n{boost}\n{includes}")
        (generators / "CMakeLists.txt").write_text(f"""
            cmake_minimum_required(VERSION 3.15)
            project(consumer LANGUAGES CXX)
            find_package(boost_rdma REQUIRED CONFIG PATHS "{generators}" NO_DEFAULT_PATH)
            get_target_property(features boost_rdma::boost_rdma INTERFACE_COMPILE_FEATURES)
            if(NOT features STREQUAL "{features}")
              message(FATAL_ERROR "the target has the features ${{features}}")
            endif()""")
        build = self.directory / "build"
        shutil.rmtree(build, ignore_errors=True)
        run = subprocess.run(["cmake", "-S", generators, "-B", build, f"-DBoost_DIR={self.directory}"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return "" if run.returncode == 0 else " ".join(run.stdout.split())

    def test_accepts_64_bit_linux(self):
        for arch in ("x86_64", "armv8", "armv8.3", "ppc64le", "riscv64", "s390x"):
            self.recipe(arch=arch).validate()

    def test_refuses_32_bit(self):
        for arch in ("x86", "armv7hf", "armv8_32", "ppc32", "riscv32", "mips", "s390"):
            with self.subTest(arch), self.assertRaisesRegex(InvalidConfiguration, "64-bit"):
                self.recipe(arch=arch).validate()

    def test_refuses_other_systems_and_old_compilers(self):
        recipe = self.recipe()
        recipe.settings.os = "Windows"
        with self.assertRaisesRegex(InvalidConfiguration, "Linux"):
            recipe.validate()
        recipe = self.recipe()
        recipe.settings.compiler.version = "11"
        with self.assertRaisesRegex(InvalidConfiguration, "gcc 12"):
            recipe.validate()

    def test_shared_library_makes_spdlog_shared(self):
        recipe = self.recipe(shared=True)
        self.assertTrue(recipe.options["spdlog"].shared)
        recipe.validate()

    def test_refuses_shared_library_with_static_spdlog(self):
        with self.assertRaisesRegex(InvalidConfiguration, r"spdlog/\*:shared=True"):
            self.recipe(shared=True, spdlog=dependency("1.14.1", shared=False)).validate()

    def test_refuses_shared_library_with_header_only_spdlog(self):
        # Such a spdlog has no option `shared`.
        with self.assertRaisesRegex(InvalidConfiguration, r"spdlog/\*:shared=True"):
            self.recipe(shared=True, spdlog=dependency("1.14.1", header_only=True)).validate()

    def test_accepts_static_library_with_any_spdlog(self):
        for shared in (True, False):
            self.recipe(spdlog=dependency("1.14.1", shared=shared)).validate()

    def test_package_info_lists_the_dependencies(self):
        for shared in (True, False):
            info = self.cpp_info(shared=shared)
            self.assertEqual(info.requires, ["boost::headers", "spdlog::spdlog"])
            self.assertEqual(info.system_libs, ["pthread", "dl"])

    def test_package_info_lists_system_libs_when_both_are_the_platforms(self):
        info = self.cpp_info(platform=("boost", "spdlog"))
        self.assertEqual(info.requires, [])
        self.assertEqual(info.system_libs, ["pthread", "dl", "spdlog", "fmt"])

    def test_package_info_lists_system_libs_when_spdlog_is_the_platforms(self):
        # No component is listed: Conan rejects a list without spdlog, and links Boost as a whole if there is none.
        info = self.cpp_info(platform=("spdlog",))
        self.assertEqual(info.requires, [])
        self.assertEqual(info.system_libs, ["pthread", "dl", "spdlog", "fmt"])

    def test_package_info_links_the_dependency_spdlog_when_boost_is_the_platforms(self):
        info = self.cpp_info(platform=("boost",))
        self.assertEqual(info.requires, [])
        self.assertEqual(info.system_libs, ["pthread", "dl"])

    def test_shared_library_needs_no_system_spdlog(self):
        self.assertEqual(self.cpp_info(shared=True, platform=("boost", "spdlog")).system_libs, ["pthread", "dl"])

    def test_platform_packages_pass_validate(self):
        for shared in (True, False):
            self.recipe(shared=shared, platform=("boost", "spdlog", "rdma-core")).validate()

    def test_target_requires_cxx_20(self):
        # A project's own Boost may have no version.
        recipe = self.package()
        self.assertEqual(self.find_package(recipe, boost="add_library(Boost::headers INTERFACE IMPORTED)"), "")

    def test_package_has_no_cmake_package_of_its_own(self):
        recipe = self.package()
        self.assertEqual(list(Path(recipe.package_folder).rglob("*config*.cmake")), [])
        self.assertEqual([str(path) for path in Path(recipe.package_folder).rglob("LICENSE")],
                         [f"{recipe.package_folder}/licenses/LICENSE"])


class RecipeOfTheSources(RecipeChecks, unittest.TestCase):
    path = ROOT / "conanfile.py"

    def version_header(self, version, directory):
        save(None, directory / "boost" / "version.hpp", f"#define BOOST_VERSION {version}\n")

    def package_id(self, **arguments):
        """The information that package_id() adds. Conan hides settings and options from it."""
        recipe = self.recipe(**arguments)
        recipe.system_includes = [str(self.directory / "local"), str(self.directory / "usr")]
        recipe.info = types.SimpleNamespace(options=recipe.options, conf=Conf())
        del recipe.options, recipe.settings
        recipe.package_id()
        return dict(recipe.info.conf)

    def other_boost(self, minor):
        """The CMake package of a Boost of the system."""
        save(None, self.directory / "BoostConfig.cmake", "add_library(Boost::headers INTERFACE IMPORTED)")
        save(None, self.directory / "BoostConfigVersion.cmake",
             f"set(PACKAGE_VERSION 1.{minor}.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)")

    def test_version_is_the_headers(self):
        recipe = self.recipe()
        recipe.set_version()
        self.assertRegex(recipe.version, r"^\d+\.\d+\.\d+$")

    def test_package_id_has_the_boost_of_the_system(self):
        self.version_header(108300, self.directory / "usr")
        self.assertEqual(list(self.package_id(system=True).values()), ["1.83"])
        self.assertEqual(list(self.package_id(platform=("boost",)).values()), ["1.83"])

    def test_package_id_has_the_boost_that_cmake_prefers(self):
        self.version_header(108300, self.directory / "usr")
        self.version_header(108600, self.directory / "local")
        self.assertEqual(list(self.package_id(system=True).values()), ["1.86"])

    def test_package_id_names_missing_boost(self):
        self.assertEqual(list(self.package_id(system=True).values()), ["none"])

    def test_package_id_is_conans_when_boost_is_conans(self):
        self.assertEqual(self.package_id(), {})

    def test_package_info_lists_system_libs_with_system(self):
        info = self.cpp_info(system=True)
        self.assertEqual(info.requires, [])
        self.assertEqual(info.system_libs, ["pthread", "dl", "spdlog", "fmt"])
        self.assertEqual(self.cpp_info(system=True, shared=True).system_libs, ["pthread", "dl"])

    def test_system_packages_pass_validate(self):
        for shared in (True, False):
            self.recipe(shared=shared, system=True).validate()

    def test_find_package_accepts_the_boost_of_the_library(self):
        self.other_boost(81)
        recipe = self.package(system=True)
        self.assertEqual(self.find_package(recipe), "")
        self.assertEqual(self.find_package(recipe, boost="find_package(Boost)"), "")

    def test_find_package_rejects_another_boost(self):
        self.other_boost(86)
        output = self.find_package(self.package(system=True))
        self.assertIn("Boost 1.81", output)
        self.assertIn("1.86", output)

    def test_cmake_module_has_its_path_in_the_sources_too(self):
        # For editable mode, where Conan looks for it in the directory of the recipe.
        modules = self.cpp_info().properties.get("cmake_build_modules")
        self.assertTrue(modules)
        for module in modules:
            self.assertTrue((ROOT / module).exists(), module)


class RecipeOfTheIndex(RecipeChecks, unittest.TestCase):
    path = INDEX_RECIPE / "all" / "conanfile.py"

    def read(self, name):
        return (INDEX_RECIPE / name).read_text()

    def test_has_the_usual_options_only(self):
        self.assertEqual(sorted(load_recipe(self.path).options), ["fPIC", "shared"])

    def test_files_list_the_current_version(self):
        header = (ROOT / "include" / "boost_rdma" / "version.hpp").read_text()
        version = ".".join(re.search(rf"BOOST_RDMA_VERSION_{part} (\d+)", header).group(1)
                           for part in ("MAJOR", "MINOR", "PATCH"))
        self.assertRegex(self.read("config.yml"), rf'(?m)^versions:\n  "{re.escape(version)}":\n    folder: all$')
        self.assertRegex(self.read("all/conandata.yml"), rf'(?m)^sources:\n  "{re.escape(version)}":\n')

    def test_every_version_has_sources(self):
        versions = re.findall(r'(?m)^  "([\d.]+)":$', self.read("config.yml"))
        sources = re.findall(r'(?m)^  "([\d.]+)":\n    url: "(https://\S+)"\n    sha256: "(\S+)"$',
                             self.read("all/conandata.yml"))
        self.assertEqual(versions, [version for version, _, _ in sources])
        for version, url, checksum in sources:
            self.assertIn(version, url)
            # A placeholder until the release exists. Conan fails on it, because no file has this checksum.
            self.assertRegex(checksum, r"^([0-9a-f]{64}|fill-in-at-the-release)$")

    def test_test_package_is_the_same(self):
        names = sorted(path.name for path in (ROOT / "test_package").iterdir() if path.is_file())
        names = [name for name in names if name != "CMakeUserPresets.json"]
        for name in names:
            self.assertEqual((ROOT / "test_package" / name).read_text(), self.read(f"all/test_package/{name}"), name)

    def test_requirements_are_the_same(self):
        sources = RecipeOfTheSources()
        self.assertEqual(self.recipe().required, sources.recipe().required)


@unittest.skipUnless((ROOT / ".git").exists() and shutil.which("git"), "the sources are no git repository")
class IgnoredFiles(unittest.TestCase):
    def test_files_that_conan_writes_are_ignored(self):
        index_test = "packaging/conan-center/recipes/boost_rdma/all/test_package"
        for path in ("CMakeUserPresets.json", "test_package/CMakeUserPresets.json", "test_package/build/gcc-12/x",
                     f"{index_test}/CMakeUserPresets.json", f"{index_test}/build/gcc-12/x"):
            run = subprocess.run(["git", "-C", ROOT, "check-ignore", "-q", path], check=False)
            self.assertEqual(run.returncode, 0, path)

    def test_sources_are_not_ignored(self):
        run = subprocess.run(["git", "-C", ROOT, "check-ignore", "-q", "test_package/test_package.cpp"], check=False)
        self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    install_fake_conan()
    unittest.main()
