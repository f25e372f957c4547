# part: windows_only/folder_rights
# Makes a folder that belongs to the administrators, and into which nobody else may write. It is made with these rights: between two steps somebody could write.
function New-OwnedFolder {
    param([string]$Path)
    $security = New-Object -TypeName System.Security.AccessControl.DirectorySecurity
    $security.SetOwner((New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList 'S-1-5-32-544'))
    $security.SetAccessRuleProtection($true, $false)
    foreach ($number in 'S-1-5-32-544', 'S-1-5-18') {
        $who = New-Object -TypeName System.Security.Principal.SecurityIdentifier -ArgumentList $number
        $rule = New-Object -TypeName System.Security.AccessControl.FileSystemAccessRule -ArgumentList $who, 'FullControl', 'ContainerInherit, ObjectInherit', 'None', 'Allow'
        $security.AddAccessRule($rule)
    }
    $null = [System.IO.Directory]::CreateDirectory($Path, $security)
}

# Who a folder belongs to and what its rules say: {leads_elsewhere, owner: number, protected: takes no rules from above,
# rules: [{who: number, allows, below_only: not on the folder itself, rights: as a number}]}.
function Read-FolderRights {
    param([string]$Path)
    $numbers = [System.Security.Principal.SecurityIdentifier]
    $acl = Get-Acl -LiteralPath $Path
    @{
        leads_elsewhere = [bool]((Get-Item -LiteralPath $Path -Force).Attributes -band [System.IO.FileAttributes]::ReparsePoint)
        owner = $acl.GetOwner($numbers).Value
        protected = $acl.AreAccessRulesProtected
        rules = @(foreach ($rule in $acl.GetAccessRules($true, $true, $numbers)) {
            @{
                who = $rule.IdentityReference.Value
                allows = $rule.AccessControlType -eq [System.Security.AccessControl.AccessControlType]::Allow
                below_only = [bool]($rule.PropagationFlags -band [System.Security.AccessControl.PropagationFlags]::InheritOnly)
                rights = [int]$rule.FileSystemRights
            }
        })
    }
}
