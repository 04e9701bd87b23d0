# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

"""Conan 2 recipe for the source tree: `conan create . -s compiler.cppstd=20`. Add -o "&:system=True" to use the Boost, spdlog
and rdma-core headers of the system. doc/packages.md has the details."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt, Dnf, PacMan

required_conan_version = ">=2.0.15"


class BoostRdmaConan(ConanFile):
    name = "boost_rdma"
    description = "RDMA for Boost.Asio, on a NIC where there is one and in software everywhere else"
    license = "BSL-1.0"
    topics = ("rdma", "infiniband", "roce", "verbs", "asio", "networking")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        # The source of rdma-core's headers, which only the build needs (libibverbs is loaded at run time).
        "with_rdma_core": ["conan", "system"],
        # True: all dependencies are the system's (Boost, spdlog, rdma-core's headers).
        "system": [True, False],
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "with_rdma_core": "conan",
        "system": False,
    }
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "lib/*", "LICENSE"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "boost_rdma", "version.hpp"))
        parts = (re.search(rf"^#define BOOST_RDMA_VERSION_{part} (\d+)$", header, re.M) for part in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(part.group(1) for part in parts)

    def configure(self):
        if self.options.system:
            self.options.rm_safe("with_rdma_core")
        if self.options.shared:
            self.options.rm_safe("fPIC")
            if not self.options.system:
                # Library and program must share one registry of loggers, see cmake/Exports.cmake.
                self.options["spdlog"].shared = True

    def layout(self):
        cmake_layout(self)

    @property
    def _rdma_core_of_conan(self):
        return self.options.get_safe("with_rdma_core") == "conan"

    def requirements(self):
        if not self.options.system:
            self.requires("boost/1.86.0", transitive_headers=True)
            self.requires("spdlog/1.14.1")
        if self._rdma_core_of_conan:
            # Only its headers, and only for the build: at run time a program loads the system's library, which has the
            # system's drivers.
            self.requires("rdma-core/52.0", headers=True, libs=False, run=False, visible=False)

    def build_requirements(self):
        if not self.options.system:
            self.tool_requires("cmake/[>=3.23 <4]")

    def system_requirements(self):
        debian, fedora, arch = [], [], []
        if not self._rdma_core_of_conan:
            debian += ["libibverbs-dev", "librdmacm-dev"]
            fedora += ["rdma-core-devel"]
            arch += ["rdma-core"]
        if self.options.system:
            debian += ["libspdlog-dev"]
            fedora += ["boost-devel", "spdlog-devel"]
            arch += ["boost", "spdlog"]
            # Debian 12 has Boost 1.81 beside its default 1.74. Keep an installed one: installing another removes it.
            boosts = [[f"libboost1.{minor}-dev"] for minor in range(81, 100)]
            apt = Apt(self)
            if not any(apt.check(boost) == [] for boost in boosts):
                apt.install_substitutes(["libboost1.81-dev"], ["libboost-dev"])
        if debian:
            Apt(self).install(debian)
            Dnf(self).install(fedora)
            PacMan(self).install(arch)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref} is for Linux only")
        check_min_cppstd(self, 20)
        minimum = {"gcc": "12", "clang": "16"}.get(str(self.settings.compiler))
        if minimum is None:
            raise ConanInvalidConfiguration(f"{self.ref} is built with GCC or Clang")
        if Version(self.settings.compiler.version) < minimum:
            raise ConanInvalidConfiguration(f"{self.ref} needs {self.settings.compiler} {minimum} or newer")

        # Packages in a profile's [platform_requires] are not in self.dependencies.
        if "boost" in self.dependencies and Version(self.dependencies["boost"].ref.version) < "1.81":
            raise ConanInvalidConfiguration(f"{self.ref} needs Boost 1.81 or newer")
        if "rdma-core" in self.dependencies and not self.dependencies["rdma-core"].options.get_safe("build_librdmacm", True):
            raise ConanInvalidConfiguration(f"{self.ref} needs the headers of rdma-core's librdmacm (build_librdmacm=True)")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["BOOST_RDMA_BUILD_TESTS"] = False
        toolchain.cache_variables["BOOST_RDMA_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["BOOST_RDMA_BUILD_TOOLS"] = False
        if "rdma-core" in self.dependencies:
            rdma_core = self.dependencies["rdma-core"].cpp_info.aggregated_components()
            include = rdma_core.includedirs[0].replace("\\", "/")
            toolchain.cache_variables["BOOST_RDMA_VERBS_INCLUDE_DIR"] = include
            toolchain.cache_variables["BOOST_RDMA_CM_INCLUDE_DIR"] = include
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan generates these files for its consumers from package_info().
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "boost_rdma")
        self.cpp_info.set_property("cmake_target_name", "boost_rdma::boost_rdma")
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion") # as in cmake/Install.cmake
        self.cpp_info.set_property("pkg_config_name", "boost_rdma")
        self.cpp_info.libs = ["boost_rdma"]
        self.cpp_info.system_libs = ["pthread", "dl"]
        if not self.options.system:
            self.cpp_info.requires = ["boost::headers", "spdlog::spdlog"]
        elif not self.options.shared:
            self.cpp_info.system_libs += ["spdlog", "fmt"]
