# Copyright (c) 2026 The boost_rdma authors
# Distributed under the Boost Software License, Version 1.0. (See LICENSE)

import os
import textwrap

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir, save
from conan.tools.scm import Version

required_conan_version = ">=2.0.15"


class BoostRdmaConan(ConanFile):
    name = "boost_rdma"
    description = "RDMA for Boost.Asio, on RDMA NICs and on a software device"
    license = "BSL-1.0"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://example.org/boost_rdma" # to be set at the release
    topics = ("rdma", "infiniband", "roce", "verbs", "asio", "networking")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
    }
    default_options = {
        "shared": False,
        "fPIC": True,
    }

    @property
    def _cmake_module(self):
        return os.path.join("lib", "cmake", f"conan-official-{self.name}-targets.cmake")

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")
            # Library and program then share spdlog's registry of loggers.
            self.options["spdlog"].shared = True

    def layout(self):
        cmake_layout(self, src_folder="src")

    def requirements(self):
        self.requires("boost/1.86.0", transitive_headers=True)
        self.requires("spdlog/1.14.1")
        # Only the headers, and only for the build: at run time, programs load the system's libibverbs, because it has
        # the drivers of the system's devices.
        self.requires("rdma-core/52.0", headers=True, libs=False, run=False, visible=False)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.23 <4]")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"{self.ref} supports Linux only")
        arch = str(self.settings.arch)
        if "64" not in arch and arch not in ("armv8", "armv8.3", "s390x", "sparcv9"):
            raise ConanInvalidConfiguration(f"{self.ref} supports 64-bit systems only, not {arch}")
        check_min_cppstd(self, 20)
        minimum = {"gcc": "12", "clang": "16"}.get(str(self.settings.compiler))
        if minimum is None:
            raise ConanInvalidConfiguration(f"{self.ref} requires GCC or Clang")
        if Version(self.settings.compiler.version) < minimum:
            raise ConanInvalidConfiguration(f"{self.ref} requires {self.settings.compiler} {minimum} or newer")

        # self.dependencies does not contain packages that the profile lists in [platform_requires].
        if "boost" in self.dependencies and Version(self.dependencies["boost"].ref.version) < "1.81":
            raise ConanInvalidConfiguration(f"{self.ref} requires Boost 1.81 or newer")
        # A static or header-only spdlog would give the library its own registry of loggers.
        if self.options.shared and "spdlog" in self.dependencies:
            if not self.dependencies["spdlog"].options.get_safe("shared", False):
                raise ConanInvalidConfiguration(
                    f"{self.ref} with shared=True requires a shared spdlog: set spdlog/*:shared=True")
        if "rdma-core" in self.dependencies:
            if not self.dependencies["rdma-core"].options.get_safe("build_librdmacm", True):
                raise ConanInvalidConfiguration(
                    f"{self.ref} requires the headers of librdmacm: set rdma-core/*:build_librdmacm=True")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

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
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))
        # CMakeDeps has no property for compile features (https://github.com/conan-io/conan/issues/10281), but includes
        # the files of cmake_build_modules.
        save(self, os.path.join(self.package_folder, self._cmake_module), textwrap.dedent("""\
            if(TARGET boost_rdma::boost_rdma)
              target_compile_features(boost_rdma::boost_rdma INTERFACE cxx_std_20)
            endif()
            """))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "boost_rdma")
        self.cpp_info.set_property("cmake_target_name", "boost_rdma::boost_rdma")
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion")
        self.cpp_info.set_property("cmake_build_modules", [self._cmake_module])
        self.cpp_info.set_property("pkg_config_name", "boost_rdma")
        self.cpp_info.libs = ["boost_rdma"]
        self.cpp_info.system_libs = ["pthread", "dl"]
        # [platform_requires] replaces dependencies by the system's packages. Conan rejects a list without them
        # (CppInfo.check_component_requires), and some versions of CMakeDeps fail if the list names them
        # (https://github.com/conan-io/conan/issues/17348). Without a list, Conan links each other dependency as a whole.
        if "boost" in self.dependencies and "spdlog" in self.dependencies:
            self.cpp_info.requires = ["boost::headers", "spdlog::spdlog"]
        # A shared library is linked to spdlog itself.
        if "spdlog" not in self.dependencies and not self.options.shared:
            self.cpp_info.system_libs += ["spdlog", "fmt"]
