use super::*;
use crate::namespace::testing::in_new_mounts;

fn builder(mounts: &[(&str, bool)]) -> Builder {
    let mounts = mounts
        .iter()
        .map(|(path, is_storage)| MountPoint { path: path.into(), is_storage: *is_storage })
        .collect();
    Builder { mounts, made: 0, owner: (0, 0), unmapped: None }
}

#[test]
fn reads_mount_points() {
    let parse = |line| MountPoint::parse(line).map(|mount| (mount.path, mount.is_storage));
    let disk =
        "36 35 98:0 /mnt1 /mnt\\040two rw,noatime shared:1 - ext3 /dev/root rw,errors=continue";
    assert_eq!(parse(disk), Some(("/mnt two".into(), true)));
    let read_only = "40 35 7:0 / /snap/x ro,nodev - squashfs /dev/loop0 ro";
    assert_eq!(parse(read_only), Some(("/snap/x".into(), false)));
    let kernel = "25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw";
    assert_eq!(parse(kernel), Some(("/sys".into(), false)));
    assert_eq!(parse("36 35 98:0 /mnt1"), None);
    assert_eq!(unescape("a\\134b\\04"), PathBuf::from("a\\b\\04"));
}

#[test]
fn finds_topmost_mounts_below_a_folder() {
    let mounts = [
        ("/", true),
        ("/home", true),
        ("/run", true),
        ("/run/user/7", true),
        ("/run/user/7/doc", false),
        ("/run/lock", true),
        ("/run/lock", false),
        ("/running", true),
    ];
    let found = builder(&mounts).below(Path::new("/run"));
    assert_eq!(found, [("/run/lock".into(), false), ("/run/user/7".into(), true)]);
}

/// A folder for a test. Dropping it removes it.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nt-{}-{test}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[test]
fn keeps_changes_of_each_view_apart() {
    let place = Place::new("apart");
    let folder = place.0.join("data, with: signs");
    let shared = folder.join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(folder.join("old"), "old").unwrap();
    let folders = [folder.clone()];
    let view = View { folders: Some(&folders), shared: &[&shared], bytes: 1 << 20, owner: (0, 0) };
    let built = in_new_mounts("keeps_changes_of_each_view_apart", || {
        [view.build().unwrap(), view.build().unwrap()]
    });
    let Some(views) = built else { return };
    for (at, mounts) in views.iter().enumerate() {
        let change = || {
            assert_eq!(text(folder.join("old")).as_deref(), Some("old"));
            fs::write(folder.join("old"), at.to_string()).unwrap();
            fs::write(folder.join("new"), at.to_string()).unwrap();
            fs::write(shared.join(at.to_string()), "").unwrap();
            fs::write(folder.join("large"), vec![0; 2 << 20]).unwrap_err().kind()
        };
        let kind = namespace::in_mounts(mounts.as_fd(), change).unwrap();
        assert_eq!(kind, io::ErrorKind::StorageFull);
    }
    for (at, mounts) in views.iter().enumerate() {
        let read = || (text(folder.join("old")), text(folder.join("new")));
        let own = Some(at.to_string());
        assert_eq!(namespace::in_mounts(mounts.as_fd(), read).unwrap(), (own.clone(), own));
    }
    assert_eq!(text(folder.join("old")).as_deref(), Some("old"));
    assert!(!folder.join("new").exists());
    assert!(shared.join("0").exists() && shared.join("1").exists());
}

#[test]
fn covers_all_files_but_those_of_the_kernel() {
    let place = Place::new("all");
    let view = View { folders: None, shared: &[], bytes: 1 << 20, owner: (0, 0) };
    let built = in_new_mounts("covers_all_files_but_those_of_the_kernel", || view.build().unwrap());
    let Some(mounts) = built else { return };
    let path = place.0.join("made");
    let change = || {
        fs::write(&path, "").unwrap();
        assert!(fs::create_dir("/netarium-test").is_err());
        Path::new("/proc/self").exists() && text("/etc/passwd").is_some()
    };
    assert!(namespace::in_mounts(mounts.as_fd(), change).unwrap());
    assert!(!path.exists());
}

#[test]
fn rejects_folders_that_do_not_exist() {
    let folders = [PathBuf::from("/no/such/folder")];
    let view = View { folders: Some(&folders), shared: &[], bytes: 1 << 20, owner: (0, 0) };
    let Some(error) =
        in_new_mounts("rejects_folders_that_do_not_exist", || view.build().unwrap_err())
    else {
        return;
    };
    assert!(error.to_string().starts_with("cannot find /no/such/folder: "), "{error}");
}
